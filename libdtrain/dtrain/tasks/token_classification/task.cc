// task.cc - feeds the model rows of words; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/tasks/token_classification/predictions.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

int32_t LongestOf(const TaggedRows& rows) {
  return *std::max_element(rows.lengths().begin(), rows.lengths().end());
}

Status FitModel(const WordPieceTokenizer& tokenizer, TaggingTaskOptions& options) {
  BertOptions& model = options.model.bert;
  if (model.vocab_size == 0) model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size()) {
    return UsageError(absl::StrFormat(
        "the vocabulary has %d pieces, but the model knows %d; give the vocabulary that belongs to "
        "the model",
        tokenizer.vocab_size(), model.vocab_size));
  }
  if (options.max_length > model.max_positions) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the model's %d positions",
                                      options.max_length, model.max_positions));
  }
  options.model.num_tags = static_cast<int64_t>(options.tags.size());
  return OkStatus();
}

StatusOr<TaggedData> OpenTaggedData(const std::vector<std::string>& paths, ConllSet set,
                                    const TaggingTaskOptions& options,
                                    const WordPieceTokenizer& tokenizer) {
  StatusOr<TaggedRows> rows = TaggedRows::Create(set, options.tags, tokenizer, options.max_length);
  if (!rows.ok()) return Annotate(rows.status(), absl::StrJoin(paths, ", "));
  return TaggedData{std::move(set), *std::move(rows)};
}

}  // namespace

std::string TagsText(const std::vector<std::string>& tags) {
  return absl::StrJoin(tags, "\n") + "\n";
}

StatusOr<std::unique_ptr<TaggingTask>> TaggingTask::Create(const TaggingTaskOptions& options,
                                                           const WordPieceTokenizer& tokenizer,
                                                           Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  TaggingTaskOptions fitted = options;
  DT_ASSIGN_OR_RETURN(ConllSet set, ReadConll(options.train, options.conll));
  if (fitted.tags.empty()) fitted.tags = TagsOf(set);
  DT_RETURN_IF_ERROR(FitModel(tokenizer, fitted));
  DT_ASSIGN_OR_RETURN(TaggedData train,
                      OpenTaggedData(options.train, std::move(set), fitted, tokenizer));
  DT_RETURN_IF_ERROR(CheckMicroBatches(options.batch, options.micro_batch_tokens,
                                       LongestOf(train.rows), comm.size()));
  std::unique_ptr<TaggingTask> task(
      new TaggingTask(fitted, std::move(train), tokenizer.Hash(), comm));
  if (!options.dev.empty()) {
    DT_ASSIGN_OR_RETURN(ConllSet dev, ReadConll(options.dev, options.conll));
    DT_ASSIGN_OR_RETURN(task->dev_, OpenTaggedData(options.dev, std::move(dev), fitted, tokenizer));
  }
  task->model().Allocate(options.device, options.compute_type, options.seed);
  DT_RETURN_IF_ERROR(task->Seek({}));
  return task;
}

TaggingTask::TaggingTask(const TaggingTaskOptions& options, TaggedData train, uint64_t vocabulary,
                         Communicator& comm)
    : ModelTask(options.model, comm),
      options_(options),
      train_(std::move(train)),
      vocabulary_(vocabulary) {
  set_accumulation(MicroBatchesOf(options.batch, options.micro_batch_tokens, LongestOf(train_.rows),
                                  comm.size()));
  updates_per_epoch_ = EpochPlan(Samples(), options.batch, /*epoch=*/0).num_batches();
}

Status TaggingTask::Seek(const DataPosition& position) {
  DT_RETURN_IF_ERROR(CheckWalk(absl::StrJoin(options_.train, ", "), "sentences", Samples().size(),
                               share(), position));
  walk_.emplace(Samples(), options_.batch, share(), position);
  MoveTo(position, Samples().size());
  return OkStatus();
}

double TaggingTask::losses_per_update() const {
  return static_cast<double>(train_.set.words) / static_cast<double>(updates_per_epoch_);
}

std::string TaggingTask::GraphKey() const {
  const std::string pieces = GraphKeyOf(inputs().text.sequences);
  return pieces.empty() ? "" : pieces + ";" + GraphKeyOf(inputs().words.sequences);
}

StatusOr<int> TaggingTask::NextUpdate() {
  const BatchShare update = walk_->Next();
  std::vector<TaggingBatch> micro_batches;
  for (const BatchPart& part : update.parts) {
    micro_batches.push_back(train_.rows.Pack(part.samples));
    micro_batches.back().sequences.set_first_numbers(part.source_numbers);
  }
  int64_t words = 0;
  for (const uint32_t row : update.samples) words += train_.rows.num_words(row);
  return Load(std::move(micro_batches), words, update.next, Samples().size());
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

Status TaggingTask::CheckCheckpoint(const Checkpoint& checkpoint) const {
  return CheckSameFiles(checkpoint, CheckpointFiles(), {"vocab.txt", "tags.txt"});
}

std::vector<NamedFile> TaggingTask::CheckpointFiles() const {
  std::vector<NamedFile> files = options_.files;
  files.push_back({"tags.txt", TagsText(options_.tags)});
  return files;
}

}  // namespace dtrain
