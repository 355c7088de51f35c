// program.cc - one run a seed: sentences, task, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/program.h"

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "dtrain/tasks/shared/internal/bert_workload.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/token_classification/config.h"
#include "dtrain/tasks/token_classification/export.h"
#include "dtrain/tasks/token_classification/head_costs.h"
#include "dtrain/tasks/token_classification/predictions.h"
#include "dtrain/tasks/token_classification/task.h"
#include "dtrain/tasks/token_classification/warm_up.h"
#include "dtrain/token_classification.pb.h"

namespace dtrain {
namespace {

StatusOr<std::unique_ptr<TaggingTask>> MakeTask(const proto::TokenClassificationConfig& config,
                                                uint64_t seed, Runtime& runtime) {
  const proto::TokenClassificationDataConfig& data = config.data();
  DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer,
                      TextTokenizer::Load(data.vocabulary(), internal::TokenizationOf(data)));
  if (runtime.comm.is_root()) internal::WarnOfCapitals(tokenizer, data.vocabulary());
  TaggingTaskOptions options = TaggingTaskOf(config, seed, runtime.device);
  DT_ASSIGN_OR_RETURN(options.files,
                      internal::FilesOf(config, data.vocabulary(), config.model().pretrained()));
  return TaggingTask::Create(options, tokenizer, runtime.comm);
}

void Report(const char* name, const TaggedData& data, RunRecorder& recorder,
            const Runtime& runtime) {
  if (!runtime.comm.is_root()) return;
  recorder.Message(absl::StrFormat("%s: %d sentences of %d words, %d rows", name,
                                   data.set.sentences.size(), data.set.words, data.rows.size()));
  if (data.rows.cut_words() == 0) return;
  LogWarning(
      absl::StrFormat("%s: %d words are longer than a row and are cut; raise data.max_length", name,
                      data.rows.cut_words()));
}

// In the folder of the recorder, with the one seed of the configuration.
StatusOr<TrainResult> TrainSeed(const proto::TokenClassificationConfig& config,
                                RunRecorder& recorder, Runtime& runtime) {
  const uint64_t seed = internal::SeedOf(config.trainer());
  recorder.set_words(
      {.unit = "words", .advice = "try      bert_tag predict data.test=FILE --run_dir"});
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<TaggingTask> task, MakeTask(config, seed, runtime));
  Report("train", task->train(), recorder, runtime);
  if (task->dev() != nullptr) Report("dev", *task->dev(), recorder, runtime);
  DT_RETURN_IF_ERROR(
      internal::CheckMetricNames(config.trainer(), TaggingMetricNames(), "tags are"));
  return internal::TrainBert(internal::SectionsOf(config),
                             {.task = *task,
                              .updates_per_epoch = task->updates_per_epoch(),
                              .lengths = TextLengthsOf(task->train().rows.lengths()),
                              .main_metric = task->dev() == nullptr ? "" : "f1",
                              .heads = NewTokenHeadsOf(*task->model().options().bert.family),
                              .seed = seed,
                              .costs = TokenClassifierHead(task->model().options()).costs,
                              .warm_up = internal::WarmUpOf(task->model(), runtime.device)},
                             recorder, runtime);
}

StatusOr<Workload> WorkloadOf(const proto::TokenClassificationConfig& config,
                              const WorkloadOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const auto head_of = [](const proto::TokenClassificationConfig& of) -> StatusOr<BertHead> {
    return TokenClassifierHead(TokenClassifierOptionsOf(of));
  };
  return internal::BertWorkloadOf(config, options, head_of);
}

}  // namespace

Status TrainTagger(const proto::TokenClassificationConfig& config, Runtime& runtime) {
  return internal::TrainProgram("bert_tag", config, TrainSeed, runtime);
}

const TaskProgram& TokenClassificationProgram() {
  static const TaskProgram program = MakeTaskProgram<proto::TokenClassificationConfig>(
      {.name = "bert_tag",
       .summary = "tags words with BERT, such as the names in a text",
       .example = "bert_tag train model.pretrained=BERT_FOLDER data.train=train.conll "
                  "data.dev=dev.conll --run_dir=runs/names",
       .defaults = TokenClassificationDefaults(),
       .most_used = {"data.train", "data.dev", "data.test", "model.pretrained", "data.tag_column",
                     "trainer.max_epochs", "trainer.batch_size", "optimizer.learning_rate",
                     "trainer.precision", "run.run_dir"},
       .commands = {{.name = "train",
                     .summary = "trains a tagger",
                     .validate = ValidateTokenClassificationConfig,
                     .run = TrainTagger},
                    {.name = "eval",
                     .summary = "measures a trained tagger on dev and test sets",
                     .validate = ValidateTokenClassificationUse,
                     .run = EvaluateTagger},
                    {.name = "predict",
                     .summary = "writes the tags of a trained tagger",
                     .validate = ValidateTokenClassificationUse,
                     .run = PredictWithTagger}},
       .workload = WorkloadOf,
       .checkpoint_files = {"vocab.txt", "tags.txt"},
       .export_to_hugging_face = ExportTaggerToHuggingFace,
       .exported_classes = "of token classification BertForTokenClassification"});
  return program;
}

}  // namespace dtrain
