// estimate.cc - formulas applied to a configuration.
// SPDX-License-Identifier: Apache-2.0
#include "planning/estimate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/bert.pb.h"
#include "dtrain/device/cuda/product.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/pretraining/config.h"
#include "dtrain/tasks/question_answering/config.h"
#include "dtrain/tasks/shared/bert_config.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/bert_shape.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/options.h"

namespace dtrain {
namespace {

constexpr double kDefaultLength = 32.0;
// Of an update, texts or tokens: with more, the bytes of activations would be beyond any number.
constexpr int64_t kLargestBatch = int64_t{1} << 32;

bool HasGpu() {
  if constexpr (kWithCuda) return cuda::DeviceCount() > 0;
  return false;
}

template <typename Config>
StatusOr<Device> DeviceOf(const Config& config) {
  const bool planned = config.trainer().recompute() == proto::TrainerConfig::auto_ &&
                       config.trainer().activation_mib() == 0;
  if (config.run().device() == proto::cuda && planned && !HasGpu()) {
    return UsageError(
        "trainer.recompute=auto asks how much memory the GPU has, and there is none here: set "
        "trainer.activation_mib");
  }
  const bool cuda =
      config.run().device() == proto::cuda || (config.run().device() == proto::auto_ && HasGpu());
  return Device{cuda ? DeviceType::kCuda : DeviceType::kCpu};
}

// Weights, gradients and the optimizer's state of such a number of parameters.
template <typename Config>
MemoryEstimate StatesOf(const Config& config, const Estimate& estimate) {
  const int64_t parameters = estimate.parameters.total();
  const int shards = config.trainer().shard_optimizer() ? estimate.ranks : 1;
  const bool is_fp32 = estimate.compute_type == DType::kFloat32;
  return {.weights = 4 * parameters,
          .compute_copy =
              is_fp32 ? 0 : static_cast<int64_t>(SizeOf(estimate.compute_type)) * parameters,
          .gradients = 4 * parameters,
          .moments = 8 * parameters / shards,
          .average = config.optimizer().ema_decay() > 0.0f ? 4 * parameters / shards : 0};
}

// What gradient_reducer.h and local_update_average.h keep and, at the end of a round, take.
template <typename TrainerConfig>
int64_t ExchangeBytes(const TrainerConfig& trainer, const Estimate& estimate) {
  if (estimate.ranks == 1 || estimate.device != DeviceType::kCpu) return 0;
  const ModelParameters& counts = estimate.parameters;
  constexpr int64_t kFloat = sizeof(float);
  int64_t bytes = 0;
  if (trainer.wire_precision() != proto::Wire::fp32) bytes += kFloat / 2 * counts.total();
  if (trainer.power_sgd_rank() > 0) {
    bytes += 2 * kFloat * (counts.total() - counts.embeddings - counts.layer_norm);
  }
  if (trainer.sync_every() > 1) bytes += 6 * kFloat * counts.total();
  return bytes;
}

std::vector<RecomputePlan> ChoicesOf(const ModelCosts& costs, ActivationOptions activations) {
  std::vector<RecomputePlan> choices;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    activations.recompute = recompute;
    choices.push_back(CostsOfRecompute(costs, activations));
  }
  return choices;
}

// What all estimates ask of a model and a micro-batch.
struct Workload {
  const ContextOptions& context;
  const Device& device;
  const ModelCosts& costs;
  double flops_per_token = 0.0;
  double flops = 0.0;  // of a rank per second
};

// Forward and backward, without recomputation.
double FlopsPerToken(const ModelCosts& costs, int64_t tokens) {
  return costs.flops(Recompute::kNone, /*recompute_every=*/1).model() / static_cast<double>(tokens);
}

// Of the busiest rank's share of an update, what is recomputed for it included.
double SecondsOf(const Estimate& estimate, const RecomputePlan& plan, double flops) {
  if (flops == 0.0) return 0.0;
  const double repeated = 1.0 + plan.recomputed_flops / (3.0 * estimate.forward_flops);
  return estimate.flops_per_update * repeated *
         BusiestShare(estimate.texts_per_batch, estimate.ranks) / flops;
}

// All that costs say of a run whose parameters are counted; `plan_with` plans with a budget in
// bytes.
template <typename Config, typename SomeEstimate, typename PlanWith>
void Fill(const Config& config, const Workload& work, const PlanWith& plan_with,
          SomeEstimate& estimate) {
  estimate.device = work.device.type;
  estimate.compute_type = work.context.compute_type;
  estimate.memory = StatesOf(config, estimate);
  if (estimate.device == DeviceType::kCuda) {
    estimate.memory.workspace = static_cast<int64_t>(cuda::kProductWorkspaceBytes);
  }
  int64_t budget = 0;
  if (config.trainer().recompute() == proto::TrainerConfig::auto_) {
    const MemoryEstimate& memory = estimate.memory;
    budget = ActivationBudget(config.trainer().activation_mib(), work.device, estimate.ranks,
                              memory.states());
  }
  estimate.plan = plan_with(budget);
  estimate.memory.exchange = ExchangeBytes(config.trainer(), estimate);
  estimate.memory.activations = estimate.plan.recompute.peak_bytes;
  estimate.choices = ChoicesOf(work.costs, {.compute_type = work.context.compute_type,
                                            .recompute_every = work.context.recompute_every,
                                            .device = work.device.type});
  estimate.forward_flops = work.costs.flops(Recompute::kNone, /*recompute_every=*/1).forward;
  estimate.flops_per_token = work.flops_per_token;
  estimate.flops_per_update = work.flops_per_token * static_cast<double>(estimate.tokens_per_batch);
  estimate.seconds_per_update = SecondsOf(estimate, estimate.plan.recompute, work.flops);
  estimate.checkpoint_bytes = (estimate.memory.average > 0 ? 16 : 12) * estimate.parameters.total();
}

// Vocabulary and lengths: of the prepared corpus where there is one.
Status ReadCorpus(const proto::DataConfig& data, TranslationEstimate& estimate) {
  estimate.model.vocab_size = data.vocab_size();
  estimate.lengths = {kDefaultLength, kDefaultLength};
  const std::string path = data.prepared() + "/train.bin";
  if (data.prepared().empty()) return OkStatus();
  if (!std::filesystem::exists(path)) {
    // A run prepares the folder where it is told of what.
    if (data.train_source_size() > 0) return OkStatus();
    return UsageError(absl::StrCat("data.prepared: ", data.prepared(),
                                   " holds no train.bin; give what dtrain prepare wrote, or leave "
                                   "it out for an estimate of texts of ordinary length"));
  }
  DT_ASSIGN_OR_RETURN(const TokenShard shard, TokenShard::Open(path, {.verify_checksum = false}));
  estimate.model.vocab_size = shard.info().vocab_size;
  estimate.lengths = MeanLengthsOf(shard);
  return OkStatus();
}

// Means that texts of 1 to `longest` tokens may have, and deviations; 0 is not given.
Status CheckLengths(const EstimateOptions& options, int64_t longest, const char* field) {
  const auto refusal = [&](const char* flag, double tokens, int least) {
    return UsageError(absl::StrFormat("--%s is %g tokens, must be %d to %d (%s)", flag, tokens,
                                      least, longest, field));
  };
  const auto most = static_cast<double>(longest);
  for (const auto& [flag, tokens] : {std::pair{"source_length", options.source_length},
                                     {"target_length", options.target_length}}) {
    if (tokens != 0.0 && !(tokens >= 1.0 && tokens <= most)) return refusal(flag, tokens, 1);
  }
  const double deviation = options.length_deviation;
  if (deviation >= 0.0 && deviation <= most) return OkStatus();
  return refusal("length_deviation", deviation, 0);
}

Status CheckBatch(const char* field, int64_t size) {
  if (size <= kLargestBatch) return OkStatus();
  return UsageError(
      absl::StrFormat("%s is %d; an estimate takes at most %d", field, size, kLargestBatch));
}

// Of a validated configuration with the model's shape.
template <typename Config>
Status FillBert(const Config& config, const EstimateOptions& options, BertEstimate& estimate) {
  DT_ASSIGN_OR_RETURN(const Device device, DeviceOf(config));
  DT_ASSIGN_OR_RETURN(estimate.head, internal::HeadOf(config));
  const BertHead& head = estimate.head;
  estimate.program = head.program;
  estimate.ranks = options.ranks;
  estimate.vocab_size = head.encoder.vocab_size;
  estimate.parameters = head.parameters;
  const int64_t longest = config.data().max_length();
  estimate.lengths = {
      .mean = options.source_length > 0.0 ? options.source_length : static_cast<double>(longest),
      .deviation = options.length_deviation,
      .longest = longest};
  const proto::BertTrainerConfig& trainer = config.trainer();
  estimate.texts_per_batch = BertBatchOf(trainer).samples_per_batch;
  estimate.tokens_per_batch =
      trainer.tokens_per_batch() > 0
          ? trainer.tokens_per_batch()
          : std::llround(static_cast<double>(trainer.batch_size()) * estimate.lengths.mean);
  const BertBatch batch = MicroBatchOf(trainer, options.ranks, estimate.lengths);
  const BertBatch usual =
      MicroBatchOf(trainer, options.ranks,
                   {.mean = estimate.lengths.mean, .deviation = 0.0, .longest = longest});
  const ContextOptions context = BertContextOf(trainer, /*seed=*/1, /*rank=*/0);
  const ModelCosts costs = head.costs(batch);
  const auto plan_with = [&](int64_t budget) {
    return PlanMemory({trainer, longest, head.costs}, batch, device.type, budget);
  };
  const double per_token = FlopsPerToken(head.costs(usual), usual.tokens);
  Fill(config, {context, device, costs, per_token, options.flops}, plan_with, estimate);
  // A text alone may be longer than an evaluation's batches.
  const int64_t tokens = std::max(trainer.eval_batch_tokens(), longest);
  const auto texts = static_cast<double>(tokens) / estimate.lengths.mean;
  estimate.memory.evaluation =
      head.costs({.tokens = tokens, .texts = std::max<int64_t>(std::llround(texts), 1)})
          .peak_bytes(
              {.compute_type = context.compute_type, .device = device.type, .training = false});
  return OkStatus();
}

template <typename Config>
StatusOr<BertEstimate> EstimateBert(const Config& given, const EstimateOptions& options) {
  Config config = given;
  BertEstimate estimate;
  DT_RETURN_IF_ERROR(ValidateWithoutData(given));
  if (options.target_length != 0.0) {
    return UsageError("--target_length is of nmt_train's sentences; use --source_length");
  }
  DT_RETURN_IF_ERROR(internal::TakeShape(config, estimate.notes));
  // Of a shape that is not the configuration's, as runs: its limits are those of its own files.
  DT_RETURN_IF_ERROR(internal::ValidateBertModel(config.model()));
  DT_RETURN_IF_ERROR(internal::ValidateTextLength(config));
  DT_RETURN_IF_ERROR(CheckLengths(options, config.data().max_length(), "data.max_length"));
  DT_RETURN_IF_ERROR(CheckBatch("trainer.batch_size", config.trainer().batch_size()));
  DT_RETURN_IF_ERROR(CheckBatch("trainer.tokens_per_batch", config.trainer().tokens_per_batch()));
  DT_RETURN_IF_ERROR(FillBert(config, options, estimate));
  return estimate;
}

}  // namespace

double BusiestShare(int64_t texts, int ranks) {
  if (texts == 0) return 1.0 / ranks;
  const int64_t most = (texts + ranks - 1) / ranks;
  return static_cast<double>(most) / static_cast<double>(texts);
}

namespace {

// Caches of keys and values where a batch of the beam search has all the places it may have, and
// logits of its rows.
int64_t BeamSearchBytes(const proto::TrainerConfig& trainer, const TranslationEstimate& estimate) {
  const Seq2SeqOptions& model = estimate.model;
  const int64_t tokens = trainer.eval_batch_tokens();
  const int64_t places = trainer.beam_size() * tokens * BeamSearchOptions::kPlacesPerToken;
  const int64_t rows = places / (trainer.beam_extra_length() + 2);
  const auto size = static_cast<int64_t>(SizeOf(estimate.compute_type));
  return model.decoder_layers * (places + tokens) * 2 * model.hidden_size * size +
         rows * model.vocab_size * static_cast<int64_t>(sizeof(float));
}

// Of the loss, whose batches are as long on their longer side, or of translating.
int64_t EvaluationBytes(const proto::TrainerConfig& trainer, const TranslationEstimate& estimate) {
  const auto tokens = static_cast<double>(trainer.eval_batch_tokens());
  const MeanLengths& lengths = estimate.lengths;
  const double pairs = tokens / std::max(lengths.source, lengths.target);
  const Seq2SeqBatch batch{.source_tokens = std::llround(std::ceil(pairs * lengths.source)),
                           .target_tokens = std::llround(std::ceil(pairs * lengths.target)),
                           .source_length = lengths.source,
                           .target_length = lengths.target};
  const int64_t loss = PeakActivationBytes(
      estimate.model, batch,
      {.compute_type = estimate.compute_type, .device = estimate.device, .training = false});
  return trainer.beam_size() > 0 ? std::max(loss, BeamSearchBytes(trainer, estimate)) : loss;
}

}  // namespace

StatusOr<TranslationEstimate> EstimateRun(const proto::NmtConfig& config,
                                          const EstimateOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_ASSIGN_OR_RETURN(const Device device, DeviceOf(config));
  const ContextOptions context = ContextOptionsOf(config.trainer(), /*rank=*/0);
  TranslationEstimate estimate;
  if (options.length_deviation != 0.0) {
    return UsageError("--length_deviation is of a BERT's texts, not of nmt_train's sentences");
  }
  DT_RETURN_IF_ERROR(CheckLengths(options, config.model().max_positions(), "model.max_positions"));
  DT_RETURN_IF_ERROR(CheckBatch("trainer.tokens_per_batch", config.trainer().tokens_per_batch()));
  estimate.program = "nmt_train";
  estimate.model = ModelOptionsOf(config.model());
  estimate.ranks = options.ranks;
  estimate.tokens_per_batch = config.trainer().tokens_per_batch();
  DT_RETURN_IF_ERROR(ReadCorpus(config.data(), estimate));
  estimate.vocab_size = estimate.model.vocab_size;
  if (options.source_length > 0.0) estimate.lengths.source = options.source_length;
  if (options.target_length > 0.0) estimate.lengths.target = options.target_length;
  const Seq2SeqBatch batch = MicroBatchOf(config.trainer(), options.ranks, estimate.lengths);
  estimate.parameters = CountParameters(estimate.model);
  const ModelCosts costs = CostsOf(estimate.model, batch);
  const auto plan_with = [&](int64_t budget) {
    return PlanMemory(config, estimate.model, batch, device.type, budget);
  };
  const double per_token = FlopsPerToken(costs, batch.target_tokens);
  Fill(config, {context, device, costs, per_token, options.flops}, plan_with, estimate);
  estimate.memory.positions = static_cast<int64_t>(SizeOf(context.compute_type)) *
                              estimate.model.max_positions * estimate.model.hidden_size;
  estimate.memory.evaluation = EvaluationBytes(config.trainer(), estimate);
  estimate.logits = LogitsBytes(estimate.model, batch,
                                {.compute_type = context.compute_type, .device = device.type});
  return estimate;
}

StatusOr<BertEstimate> EstimateRun(const proto::BertConfig& config,
                                   const EstimateOptions& options) {
  return EstimateBert(config, options);
}

StatusOr<BertEstimate> EstimateRun(const proto::PretrainConfig& config,
                                   const EstimateOptions& options) {
  return EstimateBert(config, options);
}

StatusOr<BertEstimate> EstimateRun(const proto::SquadConfig& config,
                                   const EstimateOptions& options) {
  return EstimateBert(config, options);
}

}  // namespace dtrain
