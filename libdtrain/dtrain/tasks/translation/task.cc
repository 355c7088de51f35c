// task.cc - feeds the model from shards and evaluates it, all ranks sharing the work.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/task.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/comm/gather.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/data/typical_pairs.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/tasks/translation/translator.h"
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

// The packed pairs as the model takes them.
TranslationBatch ToTranslationBatch(PairBatch& pairs) {
  return {.source_ids = std::move(pairs.source_ids),
          .source = std::move(pairs.source),
          .decoder_ids = std::move(pairs.decoder_ids),
          .target_ids = std::move(pairs.target_ids),
          .target = std::move(pairs.target)};
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

Seq2SeqOptions WithVocabulary(Seq2SeqOptions options, const BpeModel& tokenizer) {
  options.vocab_size = tokenizer.vocab_size();
  return options;
}

}  // namespace

StatusOr<std::unique_ptr<TranslationTask>> TranslationTask::Create(
    const TranslationTaskOptions& options, Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  DT_ASSIGN_OR_RETURN(BpeModel tokenizer,
                      BpeModel::Load(absl::StrCat(options.data_dir, "/vocab.spm")));
  DT_ASSIGN_OR_RETURN(std::string vocabulary, ReadWholeFile(options.data_dir + "/vocab.spm"));
  DT_ASSIGN_OR_RETURN(TokenShard train, TokenShard::Open(options.data_dir + "/train.bin",
                                                         {.vocab_hash = tokenizer.Hash()}));
  DT_RETURN_IF_ERROR(CheckLongest(train, options.data_dir + "/train.bin", options.model));
  DT_RETURN_IF_ERROR(
      CheckMicroBatches(options.batch, options.micro_batch_tokens, kLongestCounted, comm.size()));
  std::unique_ptr<TranslationTask> task(
      new TranslationTask(options, comm, std::move(tokenizer), std::move(train)));
  task->vocabulary_ = std::move(vocabulary);
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
                                 BpeModel tokenizer, TokenShard train)
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
                              .ids = Ids(),
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
  for (PairBatch& pairs : update.micro_batches) micro_batches.push_back(ToTranslationBatch(pairs));
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

StatusOr<EvaluationResult> TranslationTask::Evaluate(Context& ctx) {
  if (!dev_) return EvaluationResult();
  return EvaluateSet(*dev_, options_.eval_max_sentences, ctx);
}

StatusOr<EvaluationResult> TranslationTask::EvaluateTest(Context& ctx) {
  if (test_.empty()) return EvaluationResult();
  DT_ASSIGN_OR_RETURN(const TranslationSet test, OpenSet("test"));
  return EvaluateSet(test, /*max_sentences=*/0, ctx);
}

StatusOr<EvaluationResult> TranslationTask::EvaluateSet(const TranslationSet& set,
                                                        int64_t max_sentences, Context& ctx) {
  EvaluationResult result;
  const int64_t count =
      max_sentences > 0 ? std::min(max_sentences, set.shard.size()) : set.shard.size();
  const std::vector<uint32_t> own = OwnSentences(count, set);
  EvaluateLoss(set, count, ctx, result);
  DT_RETURN_IF_ERROR(EvaluateTranslations(set, own, count, ctx, result));
  return result;
}

std::vector<uint32_t> TranslationTask::OwnSentences(int64_t count,
                                                    const TranslationSet& set) const {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return set.shard.source_length(a) > set.shard.source_length(b);
  });
  std::vector<uint32_t> own;
  for (size_t i = static_cast<size_t>(comm().rank()); i < order.size();
       i += static_cast<size_t>(comm().size())) {
    own.push_back(order[i]);
  }
  return own;
}

void TranslationTask::EvaluateLoss(const TranslationSet& set, int64_t count, Context& ctx,
                                   EvaluationResult& result) {
  const auto pairs = static_cast<size_t>(count);
  const SampleLengths lengths{.source = set.shard.source_lengths().first(pairs),
                              .target = set.shard.target_lengths().first(pairs)};
  // Of a batch at its first pair. Those of one rank, with zeros where others have theirs, until
  // they are shared: so the sums are those of one process, to the last bit.
  std::vector<double> losses(pairs), nlls(pairs);
  BleuStatistics teacher_forced;
  std::vector<int32_t> predictions;
  for (const std::vector<uint32_t>& own :
       EvaluationBatches(lengths, options_.eval_batch_tokens, comm().rank(), comm().size(),
                         BudgetUnit::kLongerSide)) {
    PairBatch packed = PackPairs(set.shard, own, Ids());
    const TranslationBatch batch = ToTranslationBatch(packed);
    const LossSums sums = model().Forward(batch, ctx, &predictions);
    losses[own.front()] = sums.loss;
    nlls[own.front()] = sums.nll;
    for (int64_t s = 0; s < batch.target.count(); ++s) {
      const auto slice = [&](const std::vector<int32_t>& ids) {
        return std::span(ids).subspan(static_cast<size_t>(batch.target.begin(s)),
                                      static_cast<size_t>(batch.target.length(s)));
      };
      teacher_forced += CountTokenBleu(slice(predictions), slice(batch.target_ids),
                                       {.end_id = tokenizer_.eos_id()});
    }
  }
  comm().AllReduce(std::span<double>(losses), ReduceOp::kSum);
  comm().AllReduce(std::span<double>(nlls), ReduceOp::kSum);
  comm().AllReduce(std::span<int64_t>(teacher_forced.counts), ReduceOp::kSum);
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) tokens += lengths.TargetTokens(i);
  const auto mean = [&](const std::vector<double>& sums) {
    return std::accumulate(sums.begin(), sums.end(), 0.0) /
           static_cast<double>(std::max<int64_t>(tokens, 1));
  };
  result.metrics.emplace_back("loss", mean(losses));
  result.metrics.emplace_back("nll", mean(nlls));
  result.metrics.emplace_back("ppl", std::exp(mean(nlls)));
  result.metrics.emplace_back("bleu_tf", ComputeTokenBleu(teacher_forced));
}

Status TranslationTask::EvaluateTranslations(const TranslationSet& set,
                                             const std::vector<uint32_t>& own, int64_t count,
                                             Context& ctx, EvaluationResult& result) {
  std::vector<std::vector<int32_t>> sources(own.size());
  std::vector<std::string> references(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    set.shard.AppendSource(own[i], sources[i]);
    sources[i].push_back(tokenizer_.eos_id());
    references[i] = set.references[own[i]];
  }
  BeamSearchOptions search = SearchOptionsFor(tokenizer_, options_.beam_size, options_.beam_alpha);
  search.extra_length = options_.beam_extra_length;
  search.batch_tokens = options_.eval_batch_tokens;
  const auto translations = TranslateIds(model(), tokenizer_, sources, search, ctx);
  std::vector<std::string> hypotheses(own.size());
  for (size_t i = 0; i < own.size(); ++i) hypotheses[i] = translations[i].front().text;
  BleuStatistics bleu;
  ChrfStatistics chrf;
  if (!own.empty()) {
    const std::vector<std::vector<std::string>> reference_sets = {references};
    DT_ASSIGN_OR_RETURN(bleu, CountBleu(hypotheses, reference_sets));
    DT_ASSIGN_OR_RETURN(chrf, CountChrf(hypotheses, reference_sets));
  }
  comm().AllReduce(std::span<int64_t>(bleu.counts), ReduceOp::kSum);
  comm().AllReduce(std::span<int64_t>(chrf.counts), ReduceOp::kSum);
  const BleuScore score = ComputeBleu(bleu);
  result.metrics.emplace_back("bleu", score.score);
  result.metrics.emplace_back("chrf", ComputeChrf(chrf));
  result.notes.push_back(absl::StrCat("BLEU|", BleuSignature(1), " = ", score.Verbose()));
  result.notes.push_back(absl::StrCat("chrF2|", ChrfSignature(1)));
  GatherSamples(set, own, count, hypotheses, result);
  return OkStatus();
}

void TranslationTask::GatherSamples(const TranslationSet& set, const std::vector<uint32_t>& own,
                                    int64_t count, const std::vector<std::string>& hypotheses,
                                    EvaluationResult& result) {
  const auto sentences = static_cast<size_t>(count);
  const auto samples = static_cast<size_t>(options_.eval_samples);
  for (const size_t index : TypicalPairs(std::span(set.sources).first(sentences),
                                         std::span(set.references).first(sentences), samples)) {
    const auto found = std::find(own.begin(), own.end(), static_cast<uint32_t>(index));
    const std::string mine =
        found == own.end() ? "" : hypotheses[static_cast<size_t>(found - own.begin())];
    std::string hypothesis;
    for (const std::string& text : AllGatherStrings(comm(), mine)) hypothesis += text;
    result.samples.push_back({set.sources[index], set.references[index], hypothesis});
  }
}

Status TranslationTask::CheckCheckpoint(const Checkpoint& checkpoint) const {
  DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText("vocab.spm"));
  if (vocabulary_ == theirs) return OkStatus();
  return StorageError(absl::StrFormat(
      "%s was trained with another vocabulary than %s/vocab.spm; prepare the data with "
      "data.vocabulary=%s/vocab.spm, or start a new run",
      checkpoint.path(), options_.data_dir, checkpoint.path()));
}

std::vector<NamedFile> TranslationTask::CheckpointFiles() const {
  return {{"config.textproto", options_.config_text}, {"vocab.spm", vocabulary_}};
}

std::string TranslationTask::TrainingData() const {
  return absl::StrFormat("pairs %d\npieces %d and %d\nchecksum %08x\n", train_.size(),
                         train_.source_tokens(), train_.target_tokens(), train_.content_crc());
}

std::string TranslationTask::Measured() const {
  if (!has_dev()) return "";
  const int64_t most = options_.eval_max_sentences;
  return absl::StrFormat(
      "dev pairs %d\ndev checksum %08x\nbeam_size %d\nbeam_alpha %g\nbeam_extra_length %d\n"
      "label_smoothing %g\n",
      most > 0 ? std::min(most, dev_->shard.size()) : dev_->shard.size(), dev_->shard.content_crc(),
      options_.beam_size, options_.beam_alpha, options_.beam_extra_length,
      options_.model.label_smoothing);
}

std::string TranslationTask::ModelText() const {
  const Seq2SeqOptions& model = options_.model;
  return absl::StrFormat("num_heads %d\nactivation %s\nnorm %s\nlayer_norm_epsilon %g\n",
                         model.num_heads, ToAbsl(Name(model.activation)),
                         model.pre_norm ? "pre" : "post", model.layer_norm_epsilon);
}

Identity TranslationTask::identity() const {
  Identity identity = {
      .training_data = TrainingData(), .evaluation = Measured(), .model = ModelText()};
  identity.shared_data =
      absl::StrCat(identity.training_data,
                   absl::StrFormat("vocabulary hash %016x\npreparation hash %016x\n",
                                   tokenizer_.Hash(), train_.info().options_hash),
                   identity.evaluation, test_.empty() ? "test none\n" : test_);
  return identity;
}

}  // namespace dtrain
