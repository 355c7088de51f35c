// classification_model.cc - from a checkpoint's files to a model that answers about texts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/classification_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/classification.pb.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/classification/internal/trained_classifier.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

// Rows as they come from the tokenizer, packed, without labels.
ClassificationBatch Pack(const EncodedTexts& rows, std::span<const uint32_t> samples,
                         int64_t labels_per_row) {
  ClassificationBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const uint32_t sample : samples) {
    batch.AppendTokens(rows.row(sample), rows.type0_sizes[sample]);
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.rows.push_back(sample);
  }
  batch.labels.assign(samples.size() * static_cast<size_t>(labels_per_row),
                      std::numeric_limits<float>::quiet_NaN());
  batch.weights.assign(samples.size(), 1.0f);
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

EncodedTexts Tokenize(const ClassificationModel& trained, std::span<const ClassifiedText> texts) {
  std::vector<std::string_view> first;
  std::vector<std::string_view> second;
  const bool pairs =
      std::any_of(texts.begin(), texts.end(), [](const ClassifiedText& t) { return t.pair; });
  for (const ClassifiedText& text : texts) {
    DT_CHECK_EQ(pairs, text.pair.has_value()) << "texts and pairs of texts in one call";
    first.push_back(text.text);
    if (pairs) second.push_back(*text.pair);
  }
  return TextBatchEncoder(trained.tokenizer)
      .Encode(first, second, {.max_length = static_cast<int>(trained.max_length)});
}

}  // namespace

StatusOr<ClassificationModel> LoadClassificationModel(const std::string& path,
                                                      const LoadModelOptions& options) {
  DT_ASSIGN_OR_RETURN(const TrainedClassifier trained, OpenTrainedClassifier(path, options.metric));
  return MakeClassificationModel(trained, options.device, options.compute_type);
}

StatusOr<ClassificationModel> MakeClassificationModel(const TrainedClassifier& trained,
                                                      const Device& device, DType compute_type) {
  const proto::ClassificationDataConfig& data = trained.config->data();
  DT_ASSIGN_OR_RETURN(std::unique_ptr<BertClassifier> model,
                      LoadClassifier(trained, device, compute_type));
  StatusOr<TextTokenizer> tokenizer =
      TextTokenizer::Load(data.vocabulary(), internal::TokenizationOf(data));
  if (!tokenizer.ok()) return internal::AsStorageError(tokenizer.status());
  DT_ASSIGN_OR_RETURN(std::string config_text, trained.checkpoint.ReadText("config.textproto"));
  return ClassificationModel{.path = trained.checkpoint.path(),
                             .step = trained.checkpoint.step(),
                             .config_text = std::move(config_text),
                             .label_kind = trained.label_kind,
                             .label_names = trained.label_names,
                             .max_length = data.max_length(),
                             .compute_type = model->parameters().compute_type(),
                             .tokenizer = *std::move(tokenizer),
                             .model = std::move(model)};
}

ClassificationPredictions ClassifyTexts(const ClassificationModel& trained,
                                        std::span<const ClassifiedText> texts, Context& ctx,
                                        int64_t batch_tokens) {
  DT_CHECK(!ctx.training()) << "predictions are made without dropout";
  const EncodedTexts rows = Tokenize(trained, texts);
  std::vector<int32_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    lengths.push_back(static_cast<int32_t>(rows.row(i).size()));
  }
  const int64_t outputs = trained.model->options().num_labels;
  ClassificationPredictions predictions{.outputs = outputs};
  predictions.probabilities.resize(texts.size() * static_cast<size_t>(outputs));
  predictions.losses.resize(texts.size());
  for (const std::vector<uint32_t>& samples : EvaluationBatches(
           {.source = lengths, .added = 0}, batch_tokens, /*rank=*/0, /*num_ranks=*/1)) {
    ClassificationOutputs batch;
    trained.model->Forward(Pack(rows, samples, trained.model->options().labels_per_row()), ctx,
                           &batch);
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto from = batch.probabilities.begin() + static_cast<int64_t>(i) * outputs;
      std::copy(from, from + outputs,
                predictions.probabilities.begin() + int64_t{samples[i]} * outputs);
    }
  }
  return predictions;
}

}  // namespace dtrain
