// program.cc - one run a seed: questions, task, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/program.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/question_answering/config.h"
#include "dtrain/tasks/question_answering/export.h"
#include "dtrain/tasks/question_answering/head_costs.h"
#include "dtrain/tasks/question_answering/internal/options.h"
#include "dtrain/tasks/question_answering/task.h"
#include "dtrain/tasks/question_answering/warm_up.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "dtrain/tasks/shared/internal/bert_workload.h"
#include "dtrain/tasks/shared/internal/tokenization.h"

namespace dtrain {
namespace {

StatusOr<std::unique_ptr<SquadTask>> MakeTask(const proto::SquadConfig& config, uint64_t seed,
                                              Runtime& runtime) {
  const proto::SquadDataConfig& data = config.data();
  DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer,
                      TextTokenizer::Load(data.vocabulary(), internal::TokenizationOf(data)));
  if (runtime.comm.is_root()) internal::WarnOfCapitals(tokenizer, data.vocabulary());
  const proto::BertTrainerConfig& trainer = config.trainer();
  SquadTaskOptions options{.train = {data.train().begin(), data.train().end()},
                           .dev = {data.dev().begin(), data.dev().end()},
                           .windows = internal::WindowsOf(data),
                           .answers = internal::AnswersOf(config.answer()),
                           .model = EncoderOptionsOf(config.model()),
                           .batch = BertBatchOf(trainer, seed, data.shuffle()),
                           .micro_batch_tokens = trainer.micro_batch_tokens(),
                           .device = runtime.device,
                           .compute_type = internal::DTypeOf(trainer.precision()),
                           .seed = seed,
                           .eval_batch_tokens = trainer.eval_batch_tokens()};
  DT_ASSIGN_OR_RETURN(options.files,
                      internal::FilesOf(config, data.vocabulary(), config.model().pretrained()));
  return SquadTask::Create(options, tokenizer, runtime.comm);
}

// What people should know of their questions before hours go into them.
void Report(const char* name, const SquadRows& rows, RunRecorder& recorder,
            const Runtime& runtime) {
  const SquadWindowFacts& facts = rows.windows.facts();
  std::string line =
      absl::StrFormat("%s: %d questions on %d texts, %d windows", name, facts.questions,
                      rows.set.contexts.size(), rows.windows.size());
  if (facts.impossible > 0) line += absl::StrFormat(", %d without an answer", facts.impossible);
  if (!runtime.comm.is_root()) return;
  recorder.Message(line);
  if (facts.cut_questions > 0) {
    LogInfo(absl::StrFormat("%s: %d questions are longer than data.max_question and are cut", name,
                            facts.cut_questions));
  }
  if (rows.set.moved_answers > 0) {
    LogWarning(absl::StrFormat(
        "%s: %d answers do not stand at answer_start, which counts code points, and were taken "
        "from the nearest place",
        name, rows.set.moved_answers));
  }
  if (rows.set.lost_answers > 0) {
    LogWarning(absl::StrFormat("%s: %d answers are empty or stand nowhere in their text", name,
                               rows.set.lost_answers));
  }
  if (facts.unanswered + facts.not_shown > 0) {
    LogWarning(absl::StrFormat(
        "%s: the answers of %d questions are not in their text and %d are whole in no window; the "
        "former are not learned from",
        name, facts.unanswered, facts.not_shown));
  }
}

// In the folder of the recorder, with the one seed of the configuration.
StatusOr<TrainResult> TrainSeed(const proto::SquadConfig& config, RunRecorder& recorder,
                                Runtime& runtime) {
  const uint64_t seed = internal::SeedOf(config.trainer());
  recorder.set_words({.unit = "windows",
                      .has_perplexity = false,
                      .advice = "try      bert_squad predict data.test=FILE --run_dir"});
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<SquadTask> task, MakeTask(config, seed, runtime));
  Report("train", task->train(), recorder, runtime);
  if (task->dev() != nullptr) Report("dev", *task->dev(), recorder, runtime);
  DT_RETURN_IF_ERROR(internal::CheckMetricNames(
      config.trainer(), SquadMetricNames(task->answers().allow_none), "answers are"));
  return internal::TrainBert(internal::SectionsOf(config),
                             {.task = *task,
                              .updates_per_epoch = task->updates_per_epoch(),
                              .lengths = TextLengthsOf(task->lengths()),
                              .main_metric = task->dev() == nullptr ? "" : "f1",
                              .heads = NewTokenHeadsOf(*task->model().options().family),
                              .seed = seed,
                              .costs = QuestionAnsweringHead(task->model().options()).costs,
                              .warm_up = internal::WarmUpOf(task->model(), runtime.device)},
                             recorder, runtime);
}

StatusOr<Workload> WorkloadOf(const proto::SquadConfig& config, const WorkloadOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const auto head_of = [](const proto::SquadConfig& of) -> StatusOr<BertHead> {
    return QuestionAnsweringHead(EncoderOptionsOf(of.model()));
  };
  return internal::BertWorkloadOf(config, options, head_of);
}

}  // namespace

Status TrainSquad(const proto::SquadConfig& config, Runtime& runtime) {
  return internal::TrainProgram("bert_squad", config, TrainSeed, runtime);
}

const TaskProgram& QuestionAnsweringProgram() {
  static const TaskProgram program = MakeTaskProgram<proto::SquadConfig>(
      {.name = "bert_squad",
       .summary = "answers questions about texts with BERT",
       .example = "bert_squad train model.pretrained=BERT_FOLDER data.train=train-v2.0.json "
                  "data.dev=dev-v2.0.json --run_dir=runs/squad",
       .defaults = SquadDefaults(),
       .most_used = {"data.train", "data.dev", "data.test", "model.pretrained", "data.max_length",
                     "trainer.max_epochs", "trainer.batch_size", "optimizer.learning_rate",
                     "trainer.precision", "run.run_dir"},
       .commands = {{.name = "train",
                     .summary = "trains a model on questions with their answers",
                     .validate = ValidateSquadConfig,
                     .run = TrainSquad},
                    {.name = "eval",
                     .summary = "measures a trained model on a dev set",
                     .validate = ValidateSquadUse,
                     .run = EvaluateSquadModel},
                    {.name = "predict",
                     .summary = "writes a trained model's answers",
                     .validate = ValidateSquadUse,
                     .run = PredictSquad}},
       .workload = WorkloadOf,
       .checkpoint_files = {"vocab.txt", "answers.txt"},
       .export_to_hugging_face = ExportSquadToHuggingFace,
       .exported_classes = "of question answering BertForQuestionAnswering"});
  return program;
}

}  // namespace dtrain
