// task.cc - feeds the model windows of contexts; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/task.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace dtrain {
namespace {

Status CheckSegments(const BertOptions& model) {
  if (model.type_vocab_size != 1 || !model.family->pairs_have_types) return OkStatus();
  return UsageError(
      "the model knows one kind of segment (type_vocab_size 1, in config.json where it is "
      "pretrained), but a question and its text are two; start from a BERT that knows two");
}

}  // namespace

std::string AnswersText(bool allow_none) {
  return absl::StrFormat("allow_none %s\n", allow_none ? "true" : "false");
}

StatusOr<std::unique_ptr<SquadTask>> SquadTask::Create(const SquadTaskOptions& options,
                                                       const TextTokenizer& tokenizer,
                                                       Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  SquadTaskOptions fitted = options;
  DT_RETURN_IF_ERROR(FitBert(tokenizer, options.windows.max_length, fitted.model));
  DT_RETURN_IF_ERROR(CheckSegments(fitted.model));
  DT_ASSIGN_OR_RETURN(SquadRows train, OpenSquad(options.train, SquadAnswers::kRequired, tokenizer,
                                                 options.windows));
  fitted.answers.allow_none = train.set.has_impossible;
  std::unique_ptr<SquadTask> task(new SquadTask(fitted, std::move(train), tokenizer.Hash(), comm));
  const std::string paths = absl::StrJoin(options.train, ", ");
  if (task->trained_.empty()) {
    return DataError(paths +
                     ": no answer stands in its text, so that there is nothing to learn from; are "
                     "the answers' texts those of the contexts?");
  }
  DT_RETURN_IF_ERROR(task->Start({.path = paths,
                                  .name = "windows with an answer",
                                  .lengths = task->lengths_,
                                  .batch = options.batch,
                                  .micro_batch_tokens = options.micro_batch_tokens}));
  if (!options.dev.empty()) {
    DT_ASSIGN_OR_RETURN(
        SquadRows dev, OpenSquad(options.dev, SquadAnswers::kRequired, tokenizer, options.windows));
    task->dev_ = std::move(dev);
    if (task->dev_->set.has_impossible) task->options_.answers.allow_none = true;
  }
  task->model().Allocate(options.device, options.compute_type, options.seed);
  return task;
}

SquadTask::SquadTask(const SquadTaskOptions& options, SquadRows train, uint64_t vocabulary,
                     Communicator& comm)
    : WalkedTask(options.model, comm),
      options_(options),
      train_(std::move(train)),
      vocabulary_(vocabulary) {
  for (int64_t i = 0; i < train_.windows.size(); ++i) {
    if (!train_.windows.window(i).has_label) continue;
    trained_.push_back(static_cast<uint32_t>(i));
    lengths_.push_back(train_.windows.lengths()[static_cast<size_t>(i)]);
  }
}

double SquadTask::losses_per_update() const {
  if (options_.batch.samples_per_batch > 0) {
    return static_cast<double>(options_.batch.samples_per_batch);
  }
  return static_cast<double>(lengths_.size()) / static_cast<double>(updates_per_epoch());
}

SpanBatch SquadTask::Pack(std::span<const uint32_t> samples) const {
  std::vector<uint32_t> rows;
  for (const uint32_t sample : samples) rows.push_back(trained_[sample]);
  return PackWindows(train_.windows, rows);
}

StatusOr<EvaluationResult> SquadTask::Evaluate(Context& ctx) {
  if (!dev_) return EvaluationResult();
  const WindowScores scores =
      ScoreWindows(model(), dev_->windows, options_.eval_batch_tokens, comm(), ctx);
  return EvaluateSquad(*dev_, scores, AnswersOf(*dev_, scores, options_.answers), options_.answers);
}

std::string SquadTask::TrainingData() const {
  return absl::StrFormat(
      "questions %d\ncrc32c %08x\nwindows %d\nmax_length %d\nstride %d\nmax_question %d\n"
      "vocabulary hash %016x\n",
      train_.set.questions.size(), train_.set.crc, trained_.size(), options_.windows.max_length,
      options_.windows.stride, options_.windows.max_question, vocabulary_);
}

std::vector<NamedFile> SquadTask::CheckpointFiles() const {
  std::vector<NamedFile> files = options_.files;
  files.push_back({"answers.txt", AnswersText(options_.answers.allow_none)});
  return files;
}

std::string SquadTask::Measured() const {
  if (!dev_) return "";
  const SquadAnswerOptions& answers = options_.answers;
  return absl::StrFormat(
      "dev questions %d\ndev crc32c %08x\nn_best %d\nmax_answer_length %d\nnull_threshold %g\n%s",
      dev_->set.questions.size(), dev_->set.crc, answers.n_best, answers.max_answer_length,
      answers.null_threshold, AnswersText(answers.allow_none));
}

}  // namespace dtrain
