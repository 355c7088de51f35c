// program.cc - one run a seed, their table, and the way back from a checkpoint to a model.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/launch/run_recorder.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/data.h"
#include "dtrain/tasks/classification/export.h"
#include "dtrain/tasks/classification/head_costs.h"
#include "dtrain/tasks/classification/internal/class_order.h"
#include "dtrain/tasks/classification/internal/config.h"
#include "dtrain/tasks/classification/predictions.h"
#include "dtrain/tasks/classification/warm_up.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "dtrain/tasks/shared/internal/bert_workload.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain {
namespace {

// Below this many training texts the result depends on the seed (Mosbach et al. 2021, "On the
// Stability of Fine-tuning BERT").
constexpr int64_t kSmallData = 10000;

void WarnIfSmall(const ClassificationTask& task, const Runtime& runtime) {
  const int64_t rows = task.train_shard().size();
  if (rows >= kSmallData || !runtime.comm.is_root()) return;
  LogWarning(absl::StrFormat(
      "%d training texts are few: results vary from seed to seed; look at several of them with "
      "trainer.seeds=1,2,3",
      rows));
}

StatusOr<std::unique_ptr<ClassificationTask>> MakeTask(const proto::ClassificationConfig& config,
                                                       uint64_t seed, const ClassifierData& data,
                                                       Runtime& runtime) {
  ClassificationTaskOptions options = ClassificationTaskOf(config, seed, runtime.device);
  options.train = data.train;
  options.dev = data.dev;
  if (!data.test.empty()) options.test = data.test.front().path;
  DT_ASSIGN_OR_RETURN(options.files, internal::FilesOf(config, config.data().vocabulary(),
                                                       config.model().pretrained()));
  return ClassificationTask::Create(options, runtime.comm);
}

// That the metrics which steer the run are some that its data has.
Status CheckMetrics(const proto::BertTrainerConfig& trainer, const std::vector<NamedShard>& dev,
                    const ClassificationShardInfo& info) {
  DT_RETURN_IF_ERROR(internal::ValidateMetrics(trainer, !dev.empty(), "data.dev or data.hold_out"));
  std::vector<std::string> names;
  for (size_t i = 0; i < dev.size(); ++i) {
    for (const std::string& name : MetricNames(info)) {
      names.push_back(i == 0 ? name : absl::StrCat(dev[i].name, "/", name));
    }
  }
  return internal::CheckMetricNames(trainer, names, "these texts are");
}

// What the rows of a classifier mean is for nobody but its files to say.
void WarnOfOtherClasses(const PretrainedReport& loaded, const proto::ClassificationDataConfig& data,
                        const ClassificationShardInfo& info) {
  const std::vector<std::string>& names = loaded.loaded;
  if (std::find(names.begin(), names.end(), "classifier.weight") == names.end()) return;
  const bool is_fixed = !data.glue().empty() || data.jigsaw();
  const std::string warning =
      internal::OtherClasses(loaded.path, internal::ClassesBeside(loaded.path), info.label_names,
                             is_fixed                               ? ""
                             : info.label_kind == LabelKind::kClass ? "data.label_names"
                                                                    : "data.label");
  if (!warning.empty()) LogWarning(warning);
}

// "2700 texts (no 1350, yes 1350)".
std::string Describe(const ClassificationShard& shard) {
  constexpr size_t kShown = 10;
  const std::vector<std::string>& names = shard.info().label_names;
  const std::vector<int64_t> rows = CountLabels(shard);
  std::vector<std::string> counts;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    counts.push_back(absl::StrFormat("%s %d", Printable(names[i]), rows[i]));
  }
  if (names.size() > kShown) counts.push_back(absl::StrCat(names.size() - kShown, " more"));
  const std::string texts = absl::StrFormat("%d texts", shard.size());
  return counts.empty() ? texts : absl::StrFormat("%s (%s)", texts, absl::StrJoin(counts, ", "));
}

// What people should know of their texts before hours go into them.
void Report(const ClassificationTask& task, const ClassifierData& data, bool holds_out,
            RunRecorder& recorder, const Runtime& runtime) {
  if (!runtime.comm.is_root()) return;
  recorder.Message("train: " + Describe(task.train_shard()));
  for (size_t i = 0; i < data.dev.size(); ++i) {
    recorder.Message(absl::StrCat(data.dev[i].name, ": ", Describe(task.dev_shards()[i]),
                                  holds_out ? ", held out of data.train" : ""));
  }
}

enum class Seeds { kOne, kSeveral };

// In the folder of the recorder, with the one seed of the configuration.
StatusOr<TrainResult> TrainSeed(const proto::ClassificationConfig& config, Seeds seeds,
                                RunRecorder& recorder, Runtime& runtime) {
  const uint64_t seed = internal::SeedOf(config.trainer());
  RunWords words{.unit = "texts",
                 .advice = "try      bert_classify predict data.test=FILE --run_dir"};
  recorder.set_words(words);
  const std::string cache =
      config.data().cache().empty() ? recorder.path() + "/data" : config.data().cache();
  DT_ASSIGN_OR_RETURN(const ClassifierData data,
                      PrepareClassifierData(config.data(), {.cache_dir = cache}, runtime));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<ClassificationTask> task,
                      MakeTask(config, seed, data, runtime));
  const bool holds_out = config.data().dev_size() == 0 && config.data().glue().empty();
  Report(*task, data, holds_out, recorder, runtime);
  if (seeds == Seeds::kOne) WarnIfSmall(*task, runtime);
  const ClassificationShardInfo& info = task->train_shard().info();
  words.has_perplexity = info.label_kind == LabelKind::kClass;
  recorder.set_words(words);
  DT_RETURN_IF_ERROR(CheckMetrics(config.trainer(), data.dev, info));
  const std::string main_metric =
      data.main_metric.empty() ? MetricNames(info)[1] : data.main_metric;
  const std::span<const std::string_view> new_names =
      task->model().options().bert.family->classifier.new_names;
  return internal::TrainBert(
      internal::SectionsOf(config),
      {.task = *task,
       .updates_per_epoch = task->updates_per_epoch(),
       .lengths = TextLengthsOf(task->train_shard().lengths()),
       .main_metric = main_metric,
       .heads = {new_names.begin(), new_names.end()},
       .seed = seed,
       .on_loaded =
           [&](const PretrainedReport& loaded) { WarnOfOtherClasses(loaded, config.data(), info); },
       .costs = ClassifierHead(task->model().options()).costs,
       .warm_up = internal::WarmUpOf(task->model(), runtime.device)},
      recorder, runtime);
}

StatusOr<BertHead> HeadOf(const proto::ClassificationConfig& config) {
  BertClassifierOptions model = ClassifierOptionsOf(config);
  DT_ASSIGN_OR_RETURN(model.num_labels, internal::CountOutputs(config.data(), model.num_labels));
  return ClassifierHead(model);
}

StatusOr<Workload> WorkloadOf(const proto::ClassificationConfig& config,
                              const WorkloadOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  return internal::BertWorkloadOf(config, options, HeadOf);
}

}  // namespace

Status TrainClassifier(const proto::ClassificationConfig& given, Runtime& runtime) {
  const Seeds seeds = given.trainer().seeds_size() > 1 ? Seeds::kSeveral : Seeds::kOne;
  const auto check = [](const proto::ClassificationConfig& config) {
    DT_RETURN_IF_ERROR(internal::CheckPooling(config.model()));
    return internal::CheckSegments(config, config.model().pretrained());
  };
  const auto train = [&](const proto::ClassificationConfig& run, RunRecorder& recorder,
                         Runtime& on) { return TrainSeed(run, seeds, recorder, on); };
  return internal::TrainProgram("bert_classify", given, check, train, runtime);
}

const TaskProgram& ClassificationProgram() {
  static const TaskProgram program = MakeTaskProgram<proto::ClassificationConfig>(
      {.name = "bert_classify",
       .summary = "classifies texts with BERT",
       .example = "bert_classify train model.pretrained=BERT_FOLDER data.train=reviews.csv "
                  "data.text=review data.label=sentiment --run_dir=runs/reviews",
       .defaults = ClassificationDefaults(),
       .most_used = {"data.train", "data.dev", "data.test", "data.text", "data.label",
                     "model.pretrained", "trainer.max_epochs", "trainer.batch_size",
                     "optimizer.learning_rate", "run.run_dir"},
       .commands = {{.name = "train",
                     .summary = "trains a classifier",
                     .validate = ValidateClassificationConfig,
                     .run = TrainClassifier},
                    {.name = "eval",
                     .summary = "measures a trained classifier on dev and test sets",
                     .validate = ValidateClassificationUse,
                     .run = EvaluateClassifier},
                    {.name = "predict",
                     .summary = "writes what a trained classifier says about texts",
                     .validate = ValidateClassificationUse,
                     .run = PredictWithClassifier}},
       .workload = WorkloadOf,
       .checkpoint_files = {"vocab.txt", "labels.txt"},
       .export_to_hugging_face = ExportClassifierToHuggingFace,
       .exported_classes = "of classification runs BertForSequenceClassification"});
  return program;
}

}  // namespace dtrain
