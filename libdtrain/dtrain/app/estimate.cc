// estimate.cc - formulas applied to a configuration.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/estimate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/app/bert_config.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/internal/pretrained_shape.h"
#include "dtrain/app/nmt_config.h"
#include "dtrain/app/nmt_options.h"
#include "dtrain/base/file.h"
#include "dtrain/bert.pb.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/nmt.pb.h"

namespace dtrain {
namespace {

constexpr double kDefaultLength = 32.0;

bool HasGpu() {
  if constexpr (kWithCuda) return cuda::DeviceCount() > 0;
  return false;
}

template <typename Config>
absl::StatusOr<Device> DeviceOf(const Config& config) {
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

std::vector<RecomputePlan> ChoicesOf(const ModelCosts& costs, ActivationOptions activations) {
  std::vector<RecomputePlan> choices;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    activations.recompute = recompute;
    choices.push_back(CostsOfRecompute(costs, activations));
  }
  return choices;
}

MemoryPlan PlanOf(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                  const Seq2SeqBatch& batch, DeviceType device, int64_t budget) {
  return PlanMemory(config, model, batch, device, budget);
}
BertMemoryPlan PlanOf(const proto::BertConfig& config, const BertClassifierOptions& model,
                      const BertBatch& batch, DeviceType device, int64_t budget) {
  const auto costs = [&](const BertBatch& of) { return CostsOf(model, of); };
  return PlanMemory({config.trainer(), config.data().max_length(), costs}, batch, device, budget);
}

// All that a model's costs say of a run; `tokens` are those of the micro-batch that FLOPs count by.
template <typename Config, typename SomeEstimate, typename Batch>
void Fill(const Config& config, const ContextOptions& context, const Device& device,
          const Batch& batch, int64_t tokens, SomeEstimate& estimate) {
  estimate.device = device.type;
  estimate.compute_type = context.compute_type;
  estimate.parameters = CountParameters(estimate.model);
  estimate.memory = StatesOf(config, estimate);
  const ModelCosts costs = CostsOf(estimate.model, batch);
  int64_t budget = 0;
  if (config.trainer().recompute() == proto::TrainerConfig::auto_) {
    budget = ActivationBudget(config.trainer().activation_mib(), device, estimate.ranks,
                              estimate.memory.states());
  }
  estimate.plan = PlanOf(config, estimate.model, batch, device.type, budget);
  estimate.memory.activations = estimate.plan.recompute.peak_bytes;
  estimate.choices = ChoicesOf(costs, {.compute_type = context.compute_type,
                                       .recompute_every = context.recompute_every,
                                       .device = device.type});
  const ModelFlops flops = costs.flops(Recompute::kNone, context.recompute_every);
  estimate.forward_flops = flops.forward;
  estimate.flops_per_token = flops.model() / static_cast<double>(tokens);
  estimate.flops_per_update =
      estimate.flops_per_token * static_cast<double>(estimate.tokens_per_batch);
  estimate.checkpoint_bytes = (estimate.memory.average > 0 ? 16 : 12) * estimate.parameters.total();
}

// Vocabulary and lengths: of the prepared corpus where there is one.
absl::Status ReadCorpus(const proto::DataConfig& data, TranslationEstimate& estimate) {
  estimate.model.vocab_size = data.vocab_size();
  estimate.lengths = {kDefaultLength, kDefaultLength};
  const std::string path = data.prepared() + "/train.bin";
  if (data.prepared().empty()) return absl::OkStatus();
  if (!std::filesystem::exists(path)) {
    // A run prepares the folder where it is told of what.
    if (data.train_source_size() > 0) return absl::OkStatus();
    return UsageError(absl::StrCat("data.prepared: ", data.prepared(),
                                   " holds no train.bin; give what dtrain prepare wrote, or leave "
                                   "it out for an estimate of texts of ordinary length"));
  }
  DT_ASSIGN_OR_RETURN(const TokenShard shard, TokenShard::Open(path, {.verify_checksum = false}));
  estimate.model.vocab_size = shard.info().vocab_size;
  estimate.lengths = MeanLengthsOf(shard);
  return absl::OkStatus();
}

// The shape of the classifier and its texts.
absl::Status ReadTexts(const proto::BertConfig& config, const EstimateOptions& options,
                       ClassifierEstimate& estimate) {
  const proto::ClassificationDataConfig& data = config.data();
  estimate.model = ClassifierOptionsOf(config);
  int64_t& vocab_size = estimate.model.bert.vocab_size;
  if (vocab_size == 0 && std::filesystem::exists(data.vocabulary())) {
    DT_ASSIGN_OR_RETURN(const std::string pieces, ReadWholeFile(data.vocabulary()));
    vocab_size = std::count(pieces.begin(), pieces.end(), '\n');
    if (!pieces.ends_with('\n')) ++vocab_size;
  }
  if (vocab_size == 0) vocab_size = BertOptions().vocab_size;
  if (data.labels() == proto::ClassificationDataConfig::value) {
    estimate.model.num_labels = 1;
  } else if (data.labels() == proto::ClassificationDataConfig::multi) {
    estimate.model.num_labels = std::max(data.label_size(), 1);
  } else if (data.label_names_size() > 0) {
    estimate.model.num_labels = data.label_names_size();
  }
  estimate.lengths.longest = data.max_length();
  estimate.lengths.mean = options.source_length > 0.0 ? options.source_length : data.max_length();
  return absl::OkStatus();
}

}  // namespace

// Caches of keys and values where a batch of the beam search has all the places it may have, and
// logits of its rows.
int64_t EvaluationBytes(const proto::TrainerConfig& trainer, const TranslationEstimate& estimate) {
  const Seq2SeqOptions& model = estimate.model;
  const int64_t tokens = trainer.eval_batch_tokens();
  const int64_t places = trainer.beam_size() * tokens * BeamSearchOptions::kPlacesPerToken;
  const int64_t rows = places / (trainer.beam_extra_length() + 2);
  const auto size = static_cast<int64_t>(SizeOf(estimate.compute_type));
  return model.decoder_layers * (places + tokens) * 2 * model.hidden_size * size +
         rows * model.vocab_size * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<TranslationEstimate> EstimateRun(const proto::NmtConfig& config,
                                                const EstimateOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_ASSIGN_OR_RETURN(const Device device, DeviceOf(config));
  const ContextOptions context = ContextOptionsOf(config.trainer(), /*rank=*/0);
  TranslationEstimate estimate;
  estimate.model = ModelOptionsOf(config.model());
  estimate.ranks = options.ranks;
  estimate.tokens_per_batch = config.trainer().tokens_per_batch();
  DT_RETURN_IF_ERROR(ReadCorpus(config.data(), estimate));
  estimate.vocab_size = estimate.model.vocab_size;
  if (options.source_length > 0.0) estimate.lengths.source = options.source_length;
  if (options.target_length > 0.0) estimate.lengths.target = options.target_length;
  const Seq2SeqBatch batch = MicroBatchOf(config.trainer(), options.ranks, estimate.lengths);
  Fill(config, context, device, batch, batch.target_tokens, estimate);
  estimate.memory.positions = static_cast<int64_t>(SizeOf(context.compute_type)) *
                              estimate.model.max_positions * estimate.model.hidden_size;
  if (config.trainer().beam_size() > 0) {
    estimate.memory.evaluation = EvaluationBytes(config.trainer(), estimate);
  }
  estimate.logits = LogitsBytes(estimate.model, batch,
                                {.compute_type = context.compute_type, .device = device.type});
  return estimate;
}

absl::StatusOr<ClassifierEstimate> EstimateRun(const proto::BertConfig& given,
                                               const EstimateOptions& options) {
  proto::BertConfig config = given;
  if (!config.model().pretrained().empty()) {
    DT_RETURN_IF_ERROR(internal::TakePretrainedShape(config));
  }
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_ASSIGN_OR_RETURN(const Device device, DeviceOf(config));
  ClassifierEstimate estimate;
  estimate.ranks = options.ranks;
  DT_RETURN_IF_ERROR(ReadTexts(config, options, estimate));
  estimate.vocab_size = estimate.model.bert.vocab_size;
  const proto::BertTrainerConfig& trainer = config.trainer();
  estimate.tokens_per_batch =
      trainer.tokens_per_batch() > 0
          ? trainer.tokens_per_batch()
          : std::llround(static_cast<double>(trainer.batch_size()) * estimate.lengths.mean);
  const BertBatch batch = MicroBatchOf(trainer, options.ranks, estimate.lengths);
  Fill(config, BertContextOf(trainer, /*seed=*/1, /*rank=*/0), device, batch, batch.tokens,
       estimate);
  return estimate;
}

}  // namespace dtrain
