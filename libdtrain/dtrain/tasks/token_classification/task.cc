// task.cc - feeds the model rows of words; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/task.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/tasks/token_classification/predictions.h"

namespace dtrain {
namespace {

StatusOr<TaggedData> OpenTaggedData(const std::vector<std::string>& paths, ConllSet set,
                                    const TaggingTaskOptions& options,
                                    const TextTokenizer& tokenizer) {
  StatusOr<TaggedRows> rows = TaggedRows::Create(set, options.tags, tokenizer, options.max_length);
  if (!rows.ok()) return Annotate(rows.status(), absl::StrJoin(paths, ", "));
  return TaggedData{std::move(set), *std::move(rows)};
}

}  // namespace

std::string TagsText(const std::vector<std::string>& tags) {
  return absl::StrJoin(tags, "\n") + "\n";
}

StatusOr<std::unique_ptr<TaggingTask>> TaggingTask::Create(const TaggingTaskOptions& options,
                                                           const TextTokenizer& tokenizer,
                                                           Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  TaggingTaskOptions fitted = options;
  DT_ASSIGN_OR_RETURN(ConllSet set, ReadConll(options.train, options.conll));
  if (fitted.tags.empty()) fitted.tags = TagsOf(set);
  DT_RETURN_IF_ERROR(FitBert(tokenizer, options.max_length, fitted.model.bert));
  fitted.model.num_tags = static_cast<int64_t>(fitted.tags.size());
  DT_ASSIGN_OR_RETURN(TaggedData train,
                      OpenTaggedData(options.train, std::move(set), fitted, tokenizer));
  std::unique_ptr<TaggingTask> task(
      new TaggingTask(fitted, std::move(train), tokenizer.Hash(), comm));
  DT_RETURN_IF_ERROR(task->Start({.path = absl::StrJoin(options.train, ", "),
                                  .name = "sentences",
                                  .lengths = task->train().rows.lengths(),
                                  .batch = options.batch,
                                  .micro_batch_tokens = options.micro_batch_tokens}));
  if (!options.dev.empty()) {
    DT_ASSIGN_OR_RETURN(ConllSet dev, ReadConll(options.dev, options.conll));
    DT_ASSIGN_OR_RETURN(task->dev_, OpenTaggedData(options.dev, std::move(dev), fitted, tokenizer));
  }
  task->model().Allocate(options.device, options.compute_type, options.seed);
  return task;
}

TaggingTask::TaggingTask(const TaggingTaskOptions& options, TaggedData train, uint64_t vocabulary,
                         Communicator& comm)
    : WalkedTask(options.model, comm),
      options_(options),
      train_(std::move(train)),
      vocabulary_(vocabulary) {}

double TaggingTask::losses_per_update() const {
  return static_cast<double>(train_.set.words) / static_cast<double>(updates_per_epoch());
}

std::string TaggingTask::GraphKey() const {
  const std::string pieces = GraphKeyOf(inputs().text.sequences);
  return pieces.empty() ? "" : pieces + ";" + GraphKeyOf(inputs().words.sequences);
}

StatusOr<EvaluationResult> TaggingTask::Evaluate(Context& ctx) {
  if (!dev_) return EvaluationResult();
  const TagPredictions predictions =
      PredictTags(model(), dev_->rows, options_.eval_batch_tokens, comm(), ctx);
  return EvaluateTags(dev_->set, predictions, options_.tags);
}

std::string TaggingTask::TrainingData() const {
  return absl::StrFormat(
      "sentences %d\ncrc32c %08x\nrows %d\nmax_length %d\nvocabulary hash %016x\n",
      train_.set.sentences.size(), train_.set.crc, train_.rows.size(), options_.max_length,
      vocabulary_);
}

std::string TaggingTask::Measured() const {
  if (!dev_) return "";
  return absl::StrFormat("dev sentences %d\ndev crc32c %08x\n", dev_->set.sentences.size(),
                         dev_->set.crc);
}

CheckpointContents TaggingTask::checkpoint() const {
  std::vector<NamedFile> files = options_.files;
  files.push_back({"tags.txt", TagsText(options_.tags)});
  return ContentsOf(std::move(files), {"tags.txt"});
}

}  // namespace dtrain
