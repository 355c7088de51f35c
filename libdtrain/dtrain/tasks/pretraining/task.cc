// task.cc - feeds the model from documents; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/task.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/tasks/pretraining/config.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

// Of the dev set's cuts and masks, whatever the run's seed: runs compare.
constexpr uint64_t kEvaluationSeed = 1;
// Made to count the updates of all epochs together: some seconds.
constexpr int64_t kMaxCountedExamples = 20'000'000;

Status CheckExamples(const PretrainingExampleOptions& options, int64_t max_positions) {
  constexpr int32_t kShortest = PretrainingExampleOptions::kMinLength;
  if (options.max_length < kShortest || options.max_length > std::numeric_limits<uint16_t>::max()) {
    return UsageError(
        absl::StrFormat("data.max_length (%d) must be %d to 65535", options.max_length, kShortest));
  }
  if (options.max_length > max_positions) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the model's %d positions",
                                      options.max_length, max_positions));
  }
  if (!(options.short_share >= 0.0 && options.short_share <= 1.0)) {
    return UsageError(absl::StrFormat("data.short_share (%g) must be 0 to 1", options.short_share));
  }
  if (!(options.masking.share > 0.0 && options.masking.share < 1.0)) {
    return UsageError(absl::StrFormat("data.masked_share (%g) must be above 0 and below 1",
                                      options.masking.share));
  }
  if (options.masking.max_predictions < 1) {
    return UsageError(absl::StrFormat("data.max_predictions (%d) must be at least 1",
                                      options.masking.max_predictions));
  }
  return OkStatus();
}

StatusOr<BertOptions> FitModel(BertOptions model, const PretrainingTaskOptions& options,
                               const DocumentShard& train) {
  const int64_t vocab_size = train.info().vocab_size;
  if (model.vocab_size == 0) model.vocab_size = vocab_size;
  if (model.vocab_size < vocab_size) {
    return UsageError(absl::StrFormat(
        "%s was prepared with a vocabulary of %d pieces, but the model knows %d; give the "
        "vocabulary that belongs to the model",
        train.path(), vocab_size, model.vocab_size));
  }
  DT_RETURN_IF_ERROR(CheckNextSentence(*model.family, options.examples.next_sentence));
  if (options.examples.next_sentence && model.type_vocab_size < 2) {
    return UsageError("model.type_vocab_size must be 2 where a second sentence follows");
  }
  DT_RETURN_IF_ERROR(CheckExamples(options.examples, model.max_positions));
  return model;
}

Status CheckDocuments(const DocumentShard& shard, bool next_sentence) {
  if (!next_sentence || shard.documents() > 1) return OkStatus();
  return DataError(absl::StrFormat(
      "%s holds %d documents, and the next sentence is guessed against those of others; end "
      "documents by empty lines in the text, change data.hold_out if it leaves too few, or set "
      "data.next_sentence=false",
      shard.path(), shard.documents()));
}

// Guesses of examples. Those of one rank, with zeros where others have theirs, until they are
// shared: so all sums are exact.
struct Guesses {
  explicit Guesses(size_t examples)
      : nll(examples), correct(examples), next_loss(examples), next_correct(examples) {}

  // Of a batch's masked tokens, at its first example.
  std::vector<double> nll, correct;
  // Of each example.
  std::vector<double> next_loss, next_correct;
};

void AddBatch(const std::vector<uint32_t>& samples, const PretrainingBatch& batch,
              const LossSums& sums, const PretrainingOutputs& outputs, Guesses& guesses) {
  const size_t first = samples.front();
  guesses.nll[first] = sums.nll;
  for (size_t i = 0; i < outputs.predictions.size(); ++i) {
    guesses.correct[first] += outputs.predictions[i] == batch.masked_ids[i] ? 1.0 : 0.0;
  }
  for (size_t i = 0; i < outputs.next_losses.size(); ++i) {
    const bool says_random =
        outputs.next_probabilities[2 * i + 1] > outputs.next_probabilities[2 * i];
    guesses.next_loss[samples[i]] = double{outputs.next_losses[i]};
    guesses.next_correct[samples[i]] = says_random == (batch.next_labels[i] == 1.0f) ? 1.0 : 0.0;
  }
}

double MeanOf(std::vector<double>& values, double count, Communicator& comm) {
  comm.AllReduce(std::span(values), ReduceOp::kSum);
  return std::accumulate(values.begin(), values.end(), 0.0) / count;
}

}  // namespace

StatusOr<PretrainingExamples> EvaluationExamples(const DocumentShard& shard,
                                                 const PretrainingExampleOptions& options) {
  DT_RETURN_IF_ERROR(CheckDocuments(shard, options.next_sentence));
  PretrainingExampleOptions fixed = options;
  fixed.seed = kEvaluationSeed;
  PretrainingExamples examples(shard, fixed, /*epoch=*/0);
  if (examples.size() == 0) return DataError(shard.path() + ": holds no text to evaluate on");
  return examples;
}

EvaluationResult EvaluatePretraining(BertPretraining& model, const PretrainingExamples& examples,
                                     int64_t batch_tokens, Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "guesses are made without dropout";
  Guesses guesses(static_cast<size_t>(examples.size()));
  for (const std::vector<uint32_t>& samples :
       EvaluationBatches(examples.sample_lengths(), batch_tokens, comm.rank(), comm.size())) {
    const PretrainingBatch batch = examples.Pack(samples, /*next_weight=*/1.0f);
    PretrainingOutputs outputs;
    const LossSums sums = model.Forward(batch, ctx, &outputs);
    AddBatch(samples, batch, sums, outputs, guesses);
  }
  std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
  std::iota(all.begin(), all.end(), 0u);
  const auto masked = static_cast<double>(examples.Masked(all));
  const auto pairs = static_cast<double>(examples.size());
  const double mlm_loss = MeanOf(guesses.nll, masked, comm);
  const double mlm_accuracy = MeanOf(guesses.correct, masked, comm);
  EvaluationResult result;
  result.metrics = {{"loss", mlm_loss},
                    {"mlm_loss", mlm_loss},
                    {"ppl", std::exp(mlm_loss)},
                    {"mlm_accuracy", mlm_accuracy}};
  if (!model.options().next_sentence) return result;
  const double next_loss = MeanOf(guesses.next_loss, pairs, comm);
  result.metrics[0].second += next_loss;
  result.metrics.emplace_back("nsp_loss", next_loss);
  result.metrics.emplace_back("nsp_accuracy", MeanOf(guesses.next_correct, pairs, comm));
  return result;
}

StatusOr<std::unique_ptr<PretrainingTask>> PretrainingTask::Create(
    const PretrainingTaskOptions& options, Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  DT_ASSIGN_OR_RETURN(DocumentShard train, DocumentShard::Open(options.train));
  PretrainingTaskOptions fitted = options;
  DT_ASSIGN_OR_RETURN(fitted.model, FitModel(options.model, options, train));
  DT_RETURN_IF_ERROR(CheckDocuments(train, options.examples.next_sentence));
  DT_RETURN_IF_ERROR(CheckMicroBatches(options.batch, options.micro_batch_tokens,
                                       options.examples.max_length, comm.size()));
  std::unique_ptr<PretrainingTask> task(new PretrainingTask(fitted, comm, std::move(train)));
  if (!options.dev.empty()) DT_RETURN_IF_ERROR(task->OpenDev());
  task->model().Allocate(options.device, options.compute_type, options.seed);
  DT_RETURN_IF_ERROR(task->PlanFirstEpoch());
  return task;
}

PretrainingTask::PretrainingTask(const PretrainingTaskOptions& options, Communicator& comm,
                                 DocumentShard train)
    : ModelTask(BertPretrainingOptions{.bert = options.model,
                                       .next_sentence = options.examples.next_sentence},
                comm),
      options_(options),
      train_(std::move(train)),
      length_counts_(static_cast<size_t>(options.examples.max_length) + 1) {
  set_accumulation(MicroBatchesOf(options.batch, options.micro_batch_tokens,
                                  options.examples.max_length, comm.size()));
}

// Planning takes seconds for ten million examples, so the loader takes what was counted.
Status PretrainingTask::PlanFirstEpoch() {
  auto examples = std::make_unique<PretrainingExamples>(train_, options_.examples, /*epoch=*/0);
  for (const uint16_t length : examples->lengths()) ++length_counts_[length];
  updates_per_epoch_ =
      EpochPlan(examples->sample_lengths(), options_.batch, /*epoch=*/0).num_batches();
  DT_ASSIGN_OR_RETURN(
      PretrainingLoader loader,
      PretrainingLoader::Create(train_, LoaderOptions(), /*start=*/{}, std::move(examples)));
  StartAt({}, std::move(loader));
  return OkStatus();
}

double PretrainingTask::losses_per_update() const {
  const PretrainingExampleOptions& examples = options_.examples;
  const int32_t special = examples.next_sentence ? 3 : 2;
  int64_t masked = 0;
  for (size_t length = 0; length < length_counts_.size(); ++length) {
    if (length_counts_[length] == 0) continue;
    masked += length_counts_[length] *
              MaskedCount(static_cast<int32_t>(length), special, examples.masking);
  }
  return static_cast<double>(masked) / static_cast<double>(updates_per_epoch_);
}

int64_t PretrainingTask::examples_per_epoch() const {
  return std::accumulate(length_counts_.begin(), length_counts_.end(), int64_t{0});
}

Status PretrainingTask::OpenDev() {
  DT_ASSIGN_OR_RETURN(dev_,
                      DocumentShard::Open(options_.dev, {.vocab_hash = train_.info().vocab_hash}));
  DT_ASSIGN_OR_RETURN(PretrainingExamples examples, EvaluationExamples(*dev_, options_.examples));
  dev_examples_.emplace(std::move(examples));
  return OkStatus();
}

Status PretrainingTask::Seek(const DataPosition& position) {
  // Two epochs' plans at once would be twice the memory.
  loader_.reset();
  DT_ASSIGN_OR_RETURN(PretrainingLoader loader,
                      PretrainingLoader::Create(train_, LoaderOptions(), position));
  StartAt(position, std::move(loader));
  return OkStatus();
}

PretrainingLoaderOptions PretrainingTask::LoaderOptions() const {
  return {.examples = options_.examples, .batch = options_.batch, .share = share()};
}

void PretrainingTask::StartAt(const DataPosition& position, PretrainingLoader loader) {
  MoveTo(position, loader.epoch_samples());
  loader_ = std::move(loader);
}

StatusOr<int> PretrainingTask::NextUpdate() {
  PretrainingUpdate update = loader_->Next();
  return Load(std::move(update.micro_batches), update.global_tokens, update.next,
              update.epoch_samples);
}

// Each epoch's examples are made for that.
std::optional<int64_t> PretrainingTask::UpdatesUntil(const DataPosition& from,
                                                     int64_t epochs) const {
  // Not their product, which may be larger than any number.
  const int64_t each = std::max<int64_t>(examples_per_epoch(), 1);
  if (epochs > kMaxCountedExamples / each) return std::nullopt;
  int64_t updates = 0;
  for (DataPosition at = from; at.epoch < epochs; at = {.epoch = at.epoch + 1}) {
    const PretrainingExamples examples(train_, options_.examples, at.epoch);
    updates += CountUpdates(examples.sample_lengths(), options_.batch, at, at.epoch + 1);
  }
  return updates;
}

std::string PretrainingTask::GraphKey() const {
  const std::string texts = GraphKeyOf(inputs().text.sequences);
  return texts.empty() ? "" : absl::StrCat(texts, ",", inputs().masked_rows.dim(0));
}

StatusOr<EvaluationResult> PretrainingTask::Evaluate(Context& ctx) {
  if (!dev_examples_) return EvaluationResult();
  return EvaluatePretraining(model(), *dev_examples_, options_.eval_batch_tokens, comm(), ctx);
}

// Where examples begin and what is masked in them belongs to a position too.
CheckpointContents PretrainingTask::checkpoint() const { return ContentsOf(CheckpointFiles()); }

Identity PretrainingTask::identity() const {
  const PretrainingExampleOptions& examples = options_.examples;
  const std::string training_data = absl::StrFormat(
      "documents %d\nsegments %d\ntokens %d\nvocabulary hash %016x\npreparation %016x\n"
      "max_length %d\nshort_share %g\nnext_sentence %d\nmasked_share %g\nmax_predictions %d\n"
      "whole_words %d\nexamples seed %d\n",
      train_.documents(), train_.segments(), train_.tokens(), train_.info().vocab_hash,
      train_.info().key, examples.max_length, examples.short_share, examples.next_sentence,
      examples.masking.share, examples.masking.max_predictions, examples.masking.whole_words,
      examples.seed);
  const std::string evaluation =
      !dev_ ? ""
            : absl::StrFormat("dev documents %d\ndev tokens %d\ndev preparation %016x\n",
                              dev_->documents(), dev_->tokens(), dev_->info().key);
  return IdentityOf(training_data, evaluation, ModelTextOf(options_.model));
}

}  // namespace dtrain
