// use.cc - evaluates with a trained classifier, or writes its predictions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/bert.pb.h"
#include "dtrain/classification.pb.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/config.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/nn/context.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tasks/classification/classification_model.h"
#include "dtrain/tasks/classification/data.h"
#include "dtrain/tasks/classification/internal/trained_classifier.h"
#include "dtrain/tasks/classification/predictions.h"
#include "dtrain/tasks/classification/program.h"
#include "dtrain/tasks/shared/internal/metrics_text.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

using internal::PrintOnRoot;

// Whether `data.label=` says that the texts have no labels. In a configuration an emptied list is
// as one that was never written.
bool HasLabelColumns(const std::vector<std::string>& arguments) {
  bool has = true;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("data.label=")) has = !internal::IsEmptyList(argument);
  }
  return has;
}

using Predict = std::function<ClassificationPredictions()>;
// The texts of a set's rows, as columns of a file of predictions. For the root.
using ReadTexts = std::function<StatusOr<std::vector<std::string>>()>;
using UseSet = std::function<Status(const NamedShard& set, const ClassificationShard& shard,
                                    const Predict& predict, const ReadTexts& read_texts)>;

// Hands the sets to `use`, one after the other: dev sets, if `with_dev` or there is no other, and
// test sets. `output` is the file that will be written, or "".
Status ForSets(const proto::ClassificationConfig& user, const std::string& output, bool with_dev,
               InvalidText invalid, Runtime& runtime, const UseSet& use) {
  DT_ASSIGN_OR_RETURN(const TrainedClassifier trained, OpenTrainedClassifier(user));
  DT_RETURN_IF_ERROR(internal::CheckSameCheckpoint(trained.checkpoint, runtime.comm));
  proto::ClassificationConfig config = *trained.config;
  internal::EmptyLists(runtime.arguments, {"data.train", "data.dev", "data.test", "data.groups"},
                       config);
  proto::ClassificationDataConfig texts = config.data();
  // Whoever trained may leave rows out; of what is predicted none goes missing unless told so.
  if (!user.data().has_bad_rows()) texts.clear_bad_rows();
  DT_RETURN_IF_ERROR(ShareRootStatus(
      runtime.comm.is_root() ? CheckIsNotRead("predict.output", output, TextFilesOf(texts))
                             : OkStatus(),
      "look at predict.output", runtime.comm));
  const ClassifierDataOptions options{
      .cache_dir = internal::CacheOf(user, config, trained.checkpoint),
      .with_train = false,
      .with_dev = with_dev,
      .label_names = trained.label_names,
      .with_labels = HasLabelColumns(runtime.arguments),
      .invalid = invalid};
  DT_ASSIGN_OR_RETURN(const ClassifierData data, PrepareClassifierData(texts, options, runtime));
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  std::vector<NamedShard> sets = data.dev;
  sets.insert(sets.end(), data.test.begin(), data.test.end());
  std::unique_ptr<BertClassifier> model;
  for (const NamedShard& set : sets) {
    DT_ASSIGN_OR_RETURN(const ClassificationShard shard, ClassificationShard::Open(set.path));
    if (!model) {
      DT_ASSIGN_OR_RETURN(model, LoadClassifier(trained, shard.info(), runtime));
    }
    Context context(runtime.device, {.compute_type = model->parameters().compute_type()});
    const auto predict = [&] {
      return PredictShard(*model, shard, config.trainer().eval_batch_tokens(), runtime.comm,
                          context);
    };
    const auto read_texts = [&] { return ReadTextColumns(texts, options, set.name, shard.size()); };
    DT_RETURN_IF_ERROR(use(set, shard, predict, read_texts));
  }
  return OkStatus();
}

// The texts of lines of the standard input, the first of them with the number `number`.
StatusOr<std::vector<ClassifiedText>> TextsOf(const std::vector<std::string>& lines, bool pairs,
                                              int64_t number) {
  std::vector<ClassifiedText> texts;
  for (const std::string& line : lines) {
    const std::string_view text = line;
    const size_t tab = text.find('\t');
    if (!pairs) {
      texts.push_back({text});
    } else if (tab != std::string_view::npos) {
      texts.push_back({text.substr(0, tab), text.substr(tab + 1)});
    } else {
      return DataError(absl::StrFormat(
          "the standard input:%d: no tab; the model was trained on pairs of texts, which are on a "
          "line with a tab between",
          number + static_cast<int64_t>(texts.size())));
    }
  }
  return texts;
}

// Answers lines of the standard input as they come, on the standard output or in predict.output.
Status PredictInput(const proto::ClassificationConfig& user, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("data.test=- is read by one process: start it without mpirun");
  }
  DT_ASSIGN_OR_RETURN(const TrainedClassifier trained, OpenTrainedClassifier(user));
  DT_ASSIGN_OR_RETURN(
      const ClassificationModel model,
      MakeClassificationModel(trained, runtime.device,
                              internal::DTypeOf(trained.config->trainer().precision())));
  DT_ASSIGN_OR_RETURN(
      TextReader reader,
      TextReader::OpenInput("-", {.invalid = internal::InvalidTextOf(user.predict().invalid())}));
  Context context(runtime.device, {.compute_type = model.compute_type});
  const ClassificationShardInfo info{
      .label_kind = model.label_kind,
      .labels_per_row = static_cast<int32_t>(model.model->options().labels_per_row()),
      .label_names = model.label_names};
  const std::string& output = user.predict().output();
  const bool pairs = !trained.config->data().text_pair().empty();
  const bool with_texts = user.predict().text();
  std::string all =
      absl::StrCat(PredictionsHeader(info), with_texts ? TextColumnsHeader(pairs) : "", "\n");
  if (output.empty()) DT_RETURN_IF_ERROR(WriteStdout(all));
  constexpr int64_t kWindow = 2000;
  std::vector<std::string> lines;
  for (int64_t number = 1;; number += static_cast<int64_t>(lines.size())) {
    DT_RETURN_IF_ERROR(reader.NextLines(kWindow, lines));
    if (lines.empty()) break;
    DT_ASSIGN_OR_RETURN(const std::vector<ClassifiedText> texts, TextsOf(lines, pairs, number));
    const ClassificationPredictions predictions =
        ClassifyTexts(model, texts, context, trained.config->trainer().eval_batch_tokens());
    std::string text;
    for (int64_t i = 0; i < predictions.rows(); ++i) {
      const ClassifiedText& row = texts[static_cast<size_t>(i)];
      absl::StrAppend(&text, PredictionsLine(info, predictions, i, absl::StrCat(number + i)),
                      with_texts ? TextColumns(row.text, row.pair) : "", "\n");
    }
    if (output.empty()) {
      DT_RETURN_IF_ERROR(WriteStdout(text));
    } else {
      all += text;
    }
  }
  if (const std::string invalid = reader.DescribeInvalid(); !invalid.empty()) LogWarning(invalid);
  return output.empty() ? OkStatus() : WriteFileAtomically(output, all);
}

}  // namespace

Status EvaluateClassifier(const proto::ClassificationConfig& config, Runtime& runtime) {
  return ForSets(config, /*output=*/"", /*with_dev=*/true, InvalidText::kFail, runtime,
                 [&](const NamedShard& set, const ClassificationShard& shard,
                     const Predict& predict, const ReadTexts&) -> Status {
                   const int64_t labelled = CountLabelled(shard);
                   std::string text = absl::StrFormat("%s (%d texts)", set.name, shard.size());
                   if (labelled == 0 && config.data().label_size() > 0) {
                     return DataError(absl::StrFormat(
                         "data.label: no text of %s has its labels in \"%s\"; name the columns as "
                         "the file does, or leave data.label out for texts without labels",
                         set.name, absl::StrJoin(config.data().label(), ",")));
                   }
                   if (labelled == 0) return PrintOnRoot(runtime, text + "  no labels\n");
                   if (labelled < shard.size()) {
                     absl::StrAppend(&text, "  with labels ", labelled);
                   }
                   const ClassificationPredictions predictions = predict();
                   EvaluationResult result;
                   DT_RETURN_IF_ERROR(AddMetrics(shard, predictions, "", result));
                   text += internal::MetricsText(result);
                   for (const std::string& note : result.notes) absl::StrAppend(&text, "\n", note);
                   const std::string only = OnlyPredictedClass(shard, predictions);
                   if (!only.empty()) {
                     absl::StrAppend(&text, "\nall texts are predicted as \"", only, "\"");
                   }
                   return PrintOnRoot(runtime, text + "\n");
                 });
}

Status PredictWithClassifier(const proto::ClassificationConfig& config, Runtime& runtime) {
  if (config.data().test_size() == 1 && config.data().test(0) == "-") {
    return PredictInput(config, runtime);
  }
  std::string output = config.predict().output();
  if (output.empty()) {
    if (config.run().run_dir().empty()) {
      return UsageError("where shall predictions go? set predict.output, or give --run_dir");
    }
    output = config.run().run_dir() + "/predictions.tsv";
  }
  int written = 0;
  return ForSets(config, output, /*with_dev=*/false,
                 internal::InvalidTextOf(config.predict().invalid()), runtime,
                 [&](const NamedShard& set, const ClassificationShard& shard,
                     const Predict& predict, const ReadTexts& read_texts) -> Status {
                   std::string path = output;
                   if (written++ > 0) {
                     const std::filesystem::path whole(output);
                     path = (whole.parent_path() / whole.stem()).string() + "-" + set.name +
                            whole.extension().string();
                   }
                   // Before the work, whether what it gives can be kept. Not of a pipe, whose
                   // reader would go when it is closed.
                   std::error_code error;
                   if (runtime.comm.is_root() && !std::filesystem::is_other(path, error)) {
                     DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(path)));
                     DT_RETURN_IF_ERROR(AtomicFile::Create(path).status());
                   }
                   const ClassificationPredictions predictions = predict();
                   if (runtime.comm.is_root()) {
                     std::vector<std::string> texts;
                     if (config.predict().text()) {
                       DT_ASSIGN_OR_RETURN(texts, read_texts());
                     }
                     DT_RETURN_IF_ERROR(WritePredictions(path, shard, predictions, texts));
                   }
                   return PrintOnRoot(
                       runtime,
                       absl::StrFormat("%s: %d text%s predicted, written to %s\n", set.name,
                                       shard.size(), shard.size() == 1 ? "" : "s", path));
                 });
}

}  // namespace dtrain
