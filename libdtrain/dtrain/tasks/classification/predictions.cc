// predictions.cc - each rank its batches, then everything to everyone by row.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/predictions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/metrics/classification_metrics.h"
#include "dtrain/runs/internal/tsv_field.h"
#include "dtrain/runs/row_values.h"
#include "dtrain/tasks/shared/evaluated_rows.h"

namespace dtrain {
namespace {

bool HasLabel(const ClassificationShard& shard, int64_t i) {
  const std::span<const float> labels = shard.labels(i);
  return !std::any_of(labels.begin(), labels.end(), [](float label) { return std::isnan(label); });
}

std::vector<int64_t> LabelledRows(const ClassificationShard& shard) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < shard.size(); ++i) {
    if (HasLabel(shard, i)) rows.push_back(i);
  }
  return rows;
}

std::string LabelName(const ClassificationShardInfo& info, int64_t label) {
  const auto i = static_cast<size_t>(label);
  return i < info.label_names.size() ? info.label_names[i] : absl::StrCat(label);
}

class Metrics {
 public:
  Metrics(const std::string& prefix, EvaluationResult& result) : prefix_(prefix), result_(result) {}

  void Add(const std::string& name, double value) {
    result_.metrics.emplace_back(prefix_ + name, value);
  }
  void Note(const std::string& text) { result_.notes.push_back(text); }

 private:
  std::string prefix_;
  EvaluationResult& result_;
};

// One output of the rows, and the label that belongs to it.
struct Column {
  std::vector<float> scores, labels;
  std::vector<uint8_t> is_positive;
};
Column ColumnOf(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                const std::vector<int64_t>& rows, size_t output, size_t label) {
  Column column;
  for (const int64_t i : rows) {
    column.scores.push_back(predictions.row(i)[output]);
    column.labels.push_back(shard.labels(i)[label]);
    column.is_positive.push_back(column.labels.back() >= 0.5f ? 1 : 0);
  }
  return column;
}

// Of two classes also those of the second one, which is the positive.
void AddClassMetrics(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                     const std::vector<int64_t>& rows, Metrics& metrics) {
  ConfusionMatrix matrix(predictions.outputs);
  for (const int64_t i : rows) {
    matrix.Add(static_cast<int64_t>(shard.labels(i)[0]), predictions.Class(i));
  }
  metrics.Add("accuracy", matrix.Accuracy());
  if (predictions.outputs == 2) {
    metrics.Add("f1", matrix.F1(1));
    metrics.Add("matthews", matrix.Matthews());
    const Column positive = ColumnOf(shard, predictions, rows, 1, 0);
    metrics.Add("auc", RocAuc(positive.scores, positive.is_positive));
  } else {
    metrics.Add("macro_f1", matrix.MacroF1());
    metrics.Add("matthews", matrix.Matthews());
  }
  metrics.Note(matrix.Format(shard.info().label_names));
}

void AddValueMetrics(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                     const std::vector<int64_t>& rows, Metrics& metrics) {
  const Column values = ColumnOf(shard, predictions, rows, 0, 0);
  metrics.Add("pearson", PearsonCorrelation(values.scores, values.labels));
  metrics.Add("spearman", SpearmanCorrelation(values.scores, values.labels));
}

// The areas under the curves of the labels and the mean of those that are defined: a label that all
// rows have, or none, has no curve. With groups, Jigsaw's score of the first label.
void AddLabelMetrics(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                     const std::vector<int64_t>& rows, Metrics& metrics) {
  const ClassificationShardInfo& info = shard.info();
  std::vector<double> areas;
  double sum = 0.0;
  int64_t defined = 0;
  for (size_t label = 0; label < static_cast<size_t>(predictions.outputs); ++label) {
    const Column column = ColumnOf(shard, predictions, rows, label, label);
    areas.push_back(RocAuc(column.scores, column.is_positive));
    if (std::isnan(areas.back())) continue;
    sum += areas.back();
    ++defined;
  }
  metrics.Add("auc", defined == 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : sum / static_cast<double>(defined));
  for (size_t label = 0; label < areas.size() && areas.size() > 1; ++label) {
    metrics.Add("auc_" + LabelName(info, static_cast<int64_t>(label)), areas[label]);
  }
  if (info.group_names.empty()) return;
  const Column first = ColumnOf(shard, predictions, rows, 0, 0);
  std::vector<uint32_t> groups;
  for (const int64_t i : rows) groups.push_back(shard.groups(i));
  const JigsawScore score = ComputeJigsawScore(first.scores, first.is_positive, groups,
                                               static_cast<int64_t>(info.group_names.size()));
  metrics.Add("jigsaw", score.final_score);
  metrics.Note(score.Format(info.group_names));
}

// What is predicted of a row, in words.
std::string Answer(const ClassificationShardInfo& info,
                   const ClassificationPredictions& predictions, int64_t i) {
  const std::span<const float> row = predictions.row(i);
  switch (info.label_kind) {
    case LabelKind::kClass:
      return LabelName(info, predictions.Class(i));
    case LabelKind::kValue:
      return absl::StrFormat("%.9g", row[0]);
    case LabelKind::kMultiLabel:
      break;
  }
  std::string names;
  for (size_t label = 0; label < row.size(); ++label) {
    if (row[label] <= 0.5f) continue;
    absl::StrAppend(&names, names.empty() ? "" : ",", LabelName(info, static_cast<int64_t>(label)));
  }
  return names;
}

bool HasOtherClass(const ClassificationShard& shard, int64_t only) {
  for (int64_t i = 0; i < shard.size(); ++i) {
    const float label = shard.labels(i)[0];
    if (label >= 0.0f && static_cast<int64_t>(label) != only) return true;
  }
  return false;
}

// Whether one of the first `labels` labels is some rows' and not others'.
bool HasMixedLabel(const ClassificationShard& shard, int64_t labels) {
  for (size_t label = 0; label < static_cast<size_t>(labels); ++label) {
    bool has = false;
    bool lacks = false;  // a row without labels neither has nor lacks
    for (int64_t i = 0; i < shard.size(); ++i) {
      has = has || shard.labels(i)[label] >= 0.5f;
      lacks = lacks || shard.labels(i)[label] < 0.5f;
    }
    if (has && lacks) return true;
  }
  return false;
}

}  // namespace

std::vector<int64_t> CountLabels(const ClassificationShard& shard) {
  std::vector<int64_t> rows(shard.info().label_names.size());
  for (int64_t i = 0; i < shard.size(); ++i) {
    const std::span<const float> labels = shard.labels(i);
    if (shard.info().label_kind == LabelKind::kClass) {
      if (!std::isnan(labels[0])) ++rows[static_cast<size_t>(labels[0])];
      continue;
    }
    for (size_t k = 0; k < rows.size(); ++k) rows[k] += labels[k] >= 0.5F ? 1 : 0;
  }
  return rows;
}

int64_t CountLabelled(const ClassificationShard& shard) {
  return static_cast<int64_t>(LabelledRows(shard).size());
}

int64_t ClassificationPredictions::Class(int64_t i) const {
  const std::span<const float> p = row(i);
  return std::max_element(p.begin(), p.end()) - p.begin();
}

ClassificationLossKind LossOf(LabelKind kind) {
  switch (kind) {
    case LabelKind::kClass:
      return ClassificationLossKind::kSoftmax;
    case LabelKind::kValue:
      return ClassificationLossKind::kMeanSquared;
    case LabelKind::kMultiLabel:
      break;
  }
  return ClassificationLossKind::kSigmoid;
}

int64_t OutputsOf(const ClassificationShardInfo& info) {
  return info.label_kind == LabelKind::kClass ? static_cast<int64_t>(info.label_names.size())
                                              : info.labels_per_row;
}

ClassificationPredictions PredictShard(BertClassifier& model, const ClassificationShard& shard,
                                       int64_t batch_tokens, Communicator& comm, Context& ctx) {
  return PredictRows(model, shard, EveryKthRow(shard.size(), 0), batch_tokens, comm, ctx);
}

ClassificationPredictions PredictRows(BertClassifier& model, const ClassificationShard& shard,
                                      const std::vector<uint32_t>& rows, int64_t batch_tokens,
                                      Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "predictions are made without dropout";
  const int64_t outputs = model.options().num_labels;
  ClassificationPredictions predictions{.outputs = outputs};
  predictions.probabilities.resize(rows.size() * static_cast<size_t>(outputs));
  predictions.losses.resize(rows.size());
  for (const RowBatch& own : BatchesOfRows(rows, shard.sample_lengths(), batch_tokens, comm)) {
    ClassificationOutputs batch;
    model.Forward(PackExamples(shard, own.rows), ctx, &batch);
    for (size_t i = 0; i < own.places.size(); ++i) {
      const auto from = batch.probabilities.begin() + static_cast<int64_t>(i) * outputs;
      std::copy(from, from + outputs,
                predictions.probabilities.begin() + int64_t{own.places[i]} * outputs);
      predictions.losses[own.places[i]] = batch.losses[i];
    }
  }
  // One rank has a row, the others have zeros there: the sums are exact.
  comm.AllReduce(std::span(predictions.probabilities), ReduceOp::kSum);
  comm.AllReduce(std::span(predictions.losses), ReduceOp::kSum);
  return predictions;
}

RowValues RowsOf(const ClassificationShard& shard, const ClassificationPredictions& predictions) {
  const bool has_classes = shard.info().label_kind == LabelKind::kClass;
  RowValues values;
  RowValues::Column labels{.name = std::string(kLabelColumn), .width = shard.info().labels_per_row};
  RowValues::Column answers{.name = std::string(kPredictionColumn), .width = predictions.outputs};
  std::vector<float> losses;
  std::vector<float> right;
  for (const int64_t i : LabelledRows(shard)) {
    values.rows.push_back(static_cast<int32_t>(i));
    losses.push_back(predictions.losses[static_cast<size_t>(i)]);
    const std::span<const float> label = shard.labels(i);
    labels.values.insert(labels.values.end(), label.begin(), label.end());
    const std::span<const float> row = predictions.row(i);
    answers.values.insert(answers.values.end(), row.begin(), row.end());
    if (!has_classes) continue;
    right.push_back(predictions.Class(i) == static_cast<int64_t>(label[0]) ? 1.0F : 0.0F);
  }
  const std::vector<float> ones(values.rows.size(), 1.0F);
  values.AddRatio("loss", std::move(losses), ones);
  if (has_classes) values.AddRatio("accuracy", std::move(right), ones);
  values.columns.push_back(std::move(labels));
  values.columns.push_back(std::move(answers));
  return values;
}

double MeanLoss(const ClassificationShard& shard, const std::vector<uint32_t>& rows,
                const ClassificationPredictions& predictions) {
  double sum = 0.0;
  double count = 0.0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!HasLabel(shard, rows[i])) continue;
    sum += double{predictions.losses[i]};
    ++count;
  }
  return count == 0.0 ? std::numeric_limits<double>::quiet_NaN() : sum / count;
}

std::vector<std::string> MetricNames(const ClassificationShardInfo& info) {
  switch (info.label_kind) {
    case LabelKind::kClass:
      if (OutputsOf(info) == 2) return {"loss", "accuracy", "f1", "matthews", "auc"};
      return {"loss", "accuracy", "macro_f1", "matthews"};
    case LabelKind::kValue:
      return {"loss", "pearson", "spearman"};
    case LabelKind::kMultiLabel:
      break;
  }
  std::vector<std::string> names = {"loss", "auc"};
  for (int64_t label = 0; label < OutputsOf(info) && OutputsOf(info) > 1; ++label) {
    names.push_back("auc_" + LabelName(info, label));
  }
  if (!info.group_names.empty()) names.emplace_back("jigsaw");
  return names;
}

Status AddMetrics(const ClassificationShard& shard, const ClassificationPredictions& predictions,
                  const std::string& prefix, EvaluationResult& result) {
  DT_CHECK_EQ(predictions.rows(), shard.size());
  const std::vector<int64_t> rows = LabelledRows(shard);
  if (rows.empty()) return OkStatus();
  double loss = 0.0;
  for (const int64_t i : rows) loss += double{predictions.losses[static_cast<size_t>(i)]};
  Metrics metrics(prefix, result);
  metrics.Add("loss", loss / static_cast<double>(rows.size()));
  switch (shard.info().label_kind) {
    case LabelKind::kClass:
      AddClassMetrics(shard, predictions, rows, metrics);
      break;
    case LabelKind::kValue:
      AddValueMetrics(shard, predictions, rows, metrics);
      break;
    case LabelKind::kMultiLabel:
      AddLabelMetrics(shard, predictions, rows, metrics);
      break;
  }
  return OkStatus();
}

std::string OnlyPredictedClass(const ClassificationShard& shard,
                               const ClassificationPredictions& predictions) {
  const ClassificationShardInfo& info = shard.info();
  if (info.label_kind == LabelKind::kValue || shard.size() < 2) return "";
  const std::string only = Answer(info, predictions, 0);
  for (int64_t i = 1; i < shard.size(); ++i) {
    if (Answer(info, predictions, i) != only) return "";
  }
  if (info.label_kind == LabelKind::kClass) {
    return HasOtherClass(shard, predictions.Class(0)) ? only : "";
  }
  // Jigsaw's target is the first label.
  if (!HasMixedLabel(shard, info.group_names.empty() ? info.labels_per_row : 1)) return "";
  return only.empty() ? "none of the labels" : only;
}

std::string PredictionsHeader(const ClassificationShardInfo& info) {
  if (info.label_kind == LabelKind::kValue) return "id\tprediction";
  std::string header = "id\tlabel";
  for (int64_t label = 0; label < OutputsOf(info); ++label) {
    absl::StrAppend(&header, "\tp_", internal::EscapeField(LabelName(info, label)));
  }
  return header;
}

std::string PredictionsLine(const ClassificationShardInfo& info,
                            const ClassificationPredictions& predictions, int64_t i,
                            std::string_view id) {
  std::string text = absl::StrCat(internal::EscapeField(id), "\t",
                                  internal::EscapeField(Answer(info, predictions, i)));
  if (info.label_kind != LabelKind::kValue) {
    for (const float p : predictions.row(i)) absl::StrAppendFormat(&text, "\t%.7g", p);
  }
  return text;
}

std::string TextColumns(std::string_view text, const std::optional<std::string_view>& pair) {
  std::string columns = "\t" + internal::EscapeField(text);
  if (pair) absl::StrAppend(&columns, "\t", internal::EscapeField(*pair));
  return columns;
}

std::string TextColumnsHeader(bool has_pairs) { return has_pairs ? "\ttext\ttext_pair" : "\ttext"; }

Status WritePredictions(const std::string& path, const ClassificationShard& shard,
                        const ClassificationPredictions& predictions,
                        std::span<const std::string> texts) {
  DT_CHECK_EQ(predictions.rows(), shard.size());
  DT_CHECK(texts.empty() || static_cast<int64_t>(texts.size()) == shard.size() + 1);
  const ClassificationShardInfo& info = shard.info();
  std::string text = absl::StrCat(PredictionsHeader(info), texts.empty() ? "" : texts[0], "\n");
  for (int64_t i = 0; i < shard.size(); ++i) {
    const std::string_view name = shard.name(i);
    absl::StrAppend(&text,
                    PredictionsLine(info, predictions, i,
                                    name.empty() ? absl::StrCat(shard.row(i)) : std::string(name)),
                    texts.empty() ? "" : texts[static_cast<size_t>(i) + 1], "\n");
  }
  return WriteFileAtomically(path, text);
}

}  // namespace dtrain
