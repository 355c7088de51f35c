// task.cc - feeds the model from shards, all ranks sharing the work.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/task.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/shared/evaluated_rows.h"
#include "dtrain/tasks/shared/model_task.h"
#include "dtrain/tasks/translation/internal/batch.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return DataError(path + ": is missing; prepare the data again");
  }
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// That every sentence has a position for each of its pieces and the end symbol.
Status CheckLongest(const TokenShard& shard, const std::string& path, const Seq2SeqOptions& model) {
  const auto longest = [](std::span<const int32_t> lengths) {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  };
  const int32_t pieces = std::max(longest(shard.source_lengths()), longest(shard.target_lengths()));
  if (pieces + 1 <= model.max_positions) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s holds a sentence of %d pieces, but model.max_positions=%d; raise it, or prepare the data "
      "with a smaller data.max_length",
      path, pieces, model.max_positions));
}

// For a batch of tokens the longest sentence does not matter.
constexpr int64_t kLongestCounted = 1;

// A set of which a part is there is one that is missed, not one that was not prepared.
bool HasSet(const std::string& folder, const char* name) {
  const auto exists = [&](const char* suffix) {
    return std::filesystem::exists(absl::StrCat(folder, "/", name, suffix));
  };
  return exists(".bin") || exists(".src") || exists(".ref");
}

Seq2SeqOptions WithVocabulary(Seq2SeqOptions options, const TranslationTokenizer& tokenizer) {
  TakeVocabulary(tokenizer, options);
  return options;
}

}  // namespace

StatusOr<std::unique_ptr<TranslationTask>> TranslationTask::Create(
    const TranslationTaskOptions& options, Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  DT_ASSIGN_OR_RETURN(TranslationTokenizer tokenizer, TranslationTokenizer::Load(options.data_dir));
  DT_ASSIGN_OR_RETURN(TokenShard train, TokenShard::Open(options.data_dir + "/train.bin",
                                                         {.vocab_hash = tokenizer.Hash()}));
  DT_RETURN_IF_ERROR(CheckLongest(train, options.data_dir + "/train.bin", options.model));
  DT_RETURN_IF_ERROR(
      CheckMicroBatches(options.batch, options.micro_batch_tokens, kLongestCounted, comm.size()));
  std::unique_ptr<TranslationTask> task(
      new TranslationTask(options, comm, std::move(tokenizer), std::move(train)));
  if (HasSet(options.data_dir, "dev")) {
    DT_ASSIGN_OR_RETURN(TranslationSet dev, task->OpenSet("dev"));
    task->dev_ = std::move(dev);
  }
  // It is used at the end: now is the time to say that it cannot be.
  if (HasSet(options.data_dir, "test")) {
    DT_ASSIGN_OR_RETURN(const TranslationSet test, task->OpenSet("test"));
    task->test_ = absl::StrFormat("test pairs %d\ntest checksum %08x\n", test.shard.size(),
                                  test.shard.content_crc());
  }
  task->model().Allocate(options.device, options.compute_type, options.seed);
  DT_RETURN_IF_ERROR(task->Seek({}));
  return task;
}

TranslationTask::TranslationTask(const TranslationTaskOptions& options, Communicator& comm,
                                 TranslationTokenizer tokenizer, TokenShard train)
    : ModelTask(WithVocabulary(options.model, tokenizer), comm),
      options_(options),
      tokenizer_(std::move(tokenizer)),
      train_(std::move(train)) {
  set_accumulation(
      MicroBatchesOf(options.batch, options.micro_batch_tokens, kLongestCounted, comm.size()));
}

StatusOr<TranslationSet> TranslationTask::OpenSet(const std::string& name) const {
  const std::string stem = options_.data_dir + "/" + name;
  DT_ASSIGN_OR_RETURN(TokenShard shard,
                      TokenShard::Open(stem + ".bin", {.vocab_hash = tokenizer_.Hash()}));
  if (shard.info().options_hash != train_.info().options_hash) {
    return DataError(absl::StrFormat(
        "%s.bin and %s were not prepared together: training text might be in it; prepare the data "
        "again",
        stem, train_.path()));
  }
  DT_RETURN_IF_ERROR(CheckLongest(shard, stem + ".bin", options_.model));
  DT_ASSIGN_OR_RETURN(std::vector<std::string> sources, ReadLines(stem + ".src"));
  DT_ASSIGN_OR_RETURN(std::vector<std::string> references, ReadLines(stem + ".ref"));
  if (static_cast<int64_t>(references.size()) != shard.size() ||
      sources.size() != references.size()) {
    return DataError(absl::StrFormat(
        "%s.bin holds %d pairs, %s.src %d and %s.ref %d lines; prepare the data again", stem,
        shard.size(), stem, sources.size(), stem, references.size()));
  }
  return TranslationSet{std::move(shard), std::move(sources), std::move(references)};
}

Status TranslationTask::Seek(const DataPosition& position) {
  const LoaderOptions options{.batch = options_.batch,
                              .ids = internal::IdsOf(tokenizer_),
                              .rank = share().rank,
                              .num_ranks = share().num_ranks,
                              .accumulation = share().accumulation};
  DT_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::Create(train_, options, position));
  loader_ = std::move(loader);
  MoveTo(position, train_.size());
  return OkStatus();
}

int64_t TranslationTask::updates_per_epoch() const {
  return EpochPlan(TrainLengths(), options_.batch, /*epoch=*/0).num_batches();
}

StatusOr<int> TranslationTask::NextUpdate() {
  LoadedBatch update = loader_->Next();
  std::vector<TranslationBatch> micro_batches;
  for (PairBatch& pairs : update.micro_batches)
    micro_batches.push_back(internal::ToTranslationBatch(pairs));
  return Load(std::move(micro_batches), update.global_tokens, update.next, train_.size());
}

std::string TranslationTask::GraphKey() const {
  const Sequences& source = inputs().source;
  const Sequences& target = inputs().target;
  if (target.count() == 0) return "";
  return absl::StrJoin({target.count(), source.tokens(), target.tokens(),
                        int64_t{source.max_length()}, int64_t{target.max_length()}},
                       ",");
}

TranslationEvaluator TranslationTask::Evaluator() {
  return {model(),
          tokenizer_,
          comm(),
          {.search = options_.search,
           .batch_tokens = options_.eval_batch_tokens,
           .samples = options_.eval_samples}};
}

Evaluation TranslationTask::evaluation() {
  const auto sample = [this](Context& ctx) -> StatusOr<EvaluationResult> {
    const auto evaluated =
        static_cast<int64_t>(EveryKthRow(dev_->shard.size(), options_.eval_max_sentences).size());
    const EvaluationResult all =
        Evaluator().EvaluateLoss(train_, TrainingSample(train_.size(), evaluated), ctx);
    return EvaluationResult{.metrics = {{"nll", all.Metric("nll")}}};
  };
  return {.dev = [this](Context& ctx) { return Evaluate(ctx); },
          .test = [this](Context& ctx) { return EvaluateTest(ctx); },
          .sample = sample};
}

StatusOr<EvaluationResult> TranslationTask::Evaluate(Context& ctx) {
  if (!dev_) return EvaluationResult();
  return Evaluator().Evaluate(*dev_, options_.eval_max_sentences, ctx);
}

StatusOr<EvaluationResult> TranslationTask::EvaluateTest(Context& ctx) {
  if (test_.empty()) return EvaluationResult();
  DT_ASSIGN_OR_RETURN(const TranslationSet test, OpenSet("test"));
  return Evaluator().Evaluate(test, /*max_sentences=*/0, ctx);
}

Status TranslationTask::CheckCheckpoint(const Checkpoint& checkpoint) const {
  bool is_same = true;
  for (const NamedFile& file : tokenizer_.files()) {
    if (!checkpoint.Has(file.name)) {
      is_same = false;
      continue;
    }
    DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(file.name));
    is_same = is_same && file.contents == theirs;
  }
  if (is_same) return OkStatus();
  const std::string theirs = TokenizerPathIn(checkpoint.path());
  return StorageError(absl::StrFormat(
      "%s was trained with another vocabulary than %s; prepare the data with data.vocabulary=%s, "
      "or start a new run",
      checkpoint.path(), TokenizerPathIn(options_.data_dir), theirs));
}

std::vector<NamedFile> TranslationTask::CheckpointFiles() const {
  std::vector<NamedFile> files = {{"config.textproto", options_.config_text}};
  files.insert(files.end(), tokenizer_.files().begin(), tokenizer_.files().end());
  files.insert(files.end(), options_.kept_files.begin(), options_.kept_files.end());
  return files;
}

Identity TranslationTask::identity() const {
  const Seq2SeqOptions& model = options_.model;
  Identity identity = {
      .training_data =
          absl::StrFormat("pairs %d\npieces %d and %d\nchecksum %08x\n", train_.size(),
                          train_.source_tokens(), train_.target_tokens(), train_.content_crc()),
      .model = absl::StrFormat("num_heads %d\nactivation %s\nnorm %s\nlayer_norm_epsilon %g\n",
                               model.num_heads, ToAbsl(Name(model.activation)),
                               model.pre_norm ? "pre" : "post", model.layer_norm_epsilon) +
               LowRankTextOf(model.low_rank)};
  if (has_dev()) {
    const int64_t pairs = dev_->shard.size();
    const int64_t most = options_.eval_max_sentences;
    const BeamSearchOptions& search = options_.search;
    identity.evaluation = absl::StrFormat(
        "dev pairs %s\ndev checksum %08x\nbeam_size %d\nbeam_alpha %g\nbeam_extra_length %d\n"
        "label_smoothing %g\n",
        most > 0 && most < pairs ? absl::StrFormat("%d of %d", most, pairs) : absl::StrCat(pairs),
        dev_->shard.content_crc(), search.beam_size, search.alpha, search.extra_length,
        model.label_smoothing);
    if (search.rules != BeamRules::kWu || search.early_stopping || search.renormalizes) {
      identity.evaluation +=
          absl::StrFormat("beam rules %d %d %d\n", static_cast<int>(search.rules),
                          search.early_stopping, search.renormalizes);
    }
  }
  identity.shared_data =
      absl::StrCat(identity.training_data,
                   absl::StrFormat("vocabulary hash %016x\npreparation hash %016x\n",
                                   tokenizer_.Hash(), train_.info().options_hash),
                   identity.evaluation, test_.empty() ? "test none\n" : test_);
  return identity;
}

}  // namespace dtrain
