// estimate.cc - formulas applied to a configuration, and their two forms of output.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/estimate.h"

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/app/nmt_config.h"
#include "dtrain/app/nmt_options.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/nmt.pb.h"

namespace dtrain {
namespace {

constexpr double kDefaultLength = 32.0;

bool HasGpu() {
  if constexpr (kWithCuda) return cuda::DeviceCount() > 0;
  return false;
}

absl::StatusOr<Device> DeviceOf(const proto::NmtConfig& config) {
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

// Vocabulary and lengths: of the prepared corpus where there is one.
absl::Status ReadCorpus(const proto::DataConfig& data, Estimate& estimate) {
  estimate.model.vocab_size = data.vocab_size();
  estimate.lengths = {kDefaultLength, kDefaultLength};
  const std::string path = data.prepared() + "/train.bin";
  if (data.prepared().empty() || !std::filesystem::exists(path)) return absl::OkStatus();
  DT_ASSIGN_OR_RETURN(const TokenShard shard, TokenShard::Open(path));
  estimate.model.vocab_size = shard.info().vocab_size;
  estimate.lengths = MeanLengthsOf(shard);
  return absl::OkStatus();
}

MemoryEstimate StatesOf(const proto::NmtConfig& config, const Estimate& estimate) {
  const int64_t parameters = estimate.parameters.total();
  const auto compute_size = static_cast<int64_t>(SizeOf(estimate.compute_type));
  const bool is_fp32 = estimate.compute_type == DType::kFloat32;
  const int shards = config.trainer().shard_optimizer() ? estimate.ranks : 1;
  return {.weights = 4 * parameters,
          .compute_copy = is_fp32 ? 0 : compute_size * parameters,
          .gradients = 4 * parameters,
          .moments = 8 * parameters / shards,
          .average = config.optimizer().ema_decay() > 0.0f ? 4 * parameters / shards : 0,
          .positions = compute_size * estimate.model.max_positions * estimate.model.hidden_size};
}

std::vector<RecomputePlan> ChoicesOf(const Estimate& estimate, const Seq2SeqBatch& batch,
                                     ActivationOptions activations) {
  std::vector<RecomputePlan> choices;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    activations.recompute = recompute;
    const int every = activations.recompute_every;
    choices.push_back(
        {.recompute = recompute,
         .recompute_every = every,
         .peak_bytes = PeakActivationBytes(estimate.model, batch, activations),
         .recomputed_flops = CountFlops(estimate.model, batch, recompute, every).recomputed});
  }
  return choices;
}

std::string_view NameOf(DType dtype) {
  if (dtype == DType::kFloat32) return "fp32";
  return dtype == DType::kBFloat16 ? "bf16" : "fp16";
}

// "60,815,872".
std::string WithCommas(int64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

// "1.23 GFLOP".
std::string FormatFlops(double flops) {
  constexpr const char* kUnits[] = {"kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  size_t unit = 0;
  for (flops /= 1e3; flops >= 999.5 && unit + 1 < std::size(kUnits); ++unit) flops /= 1e3;
  return absl::StrFormat("%.3g %s", flops, kUnits[unit]);
}

// Of the products that the model needs.
double RecomputedShare(const Estimate& estimate, const RecomputePlan& plan) {
  return plan.recomputed_flops / (3.0 * estimate.forward_flops);
}

std::string ParametersText(const Estimate& estimate) {
  const Seq2SeqParameters& counts = estimate.parameters;
  std::string text = absl::StrFormat("parameters %35s  (vocabulary %d)\n",
                                     WithCommas(counts.total()), estimate.model.vocab_size);
  const std::pair<const char*, int64_t> kinds[] = {{"embeddings", counts.embeddings},
                                                   {"attention", counts.attention},
                                                   {"feed-forward", counts.feed_forward},
                                                   {"layer norm", counts.layer_norm},
                                                   {"output", counts.output}};
  for (const auto& [name, count] : kinds) {
    if (count > 0) absl::StrAppendFormat(&text, "  %-22s %20s\n", name, WithCommas(count));
  }
  return text;
}

std::string MemoryText(const Estimate& estimate) {
  const MemoryEstimate& memory = estimate.memory;
  const Seq2SeqBatch& batch = estimate.plan.batch;
  std::string text = absl::StrFormat("memory of each rank (%d in all), %s on %s\n", estimate.ranks,
                                     NameOf(estimate.compute_type),
                                     estimate.device == DeviceType::kCpu ? "the CPU" : "a GPU");
  const std::pair<const char*, int64_t> kinds[] = {
      {"weights", memory.weights},        {"compute copy", memory.compute_copy},
      {"gradients", memory.gradients},    {"moments", memory.moments},
      {"average", memory.average},        {"positions", memory.positions},
      {"activations", memory.activations}};
  for (const auto& [name, bytes] : kinds) {
    if (bytes > 0) absl::StrAppendFormat(&text, "  %-22s %20s\n", name, FormatMebibytes(bytes));
  }
  absl::StrAppendFormat(&text, "  %-22s %20s\n", "total", FormatMebibytes(memory.total()));
  absl::StrAppendFormat(
      &text, "activations of %d source and %d target tokens (logits %s), by trainer.recompute\n",
      batch.source_tokens, batch.target_tokens, FormatMebibytes(estimate.logits));
  for (const RecomputePlan& choice : estimate.choices) {
    absl::StrAppendFormat(&text, "  %-22s %20s  +%.1f %% FLOPs\n", DescribeRecompute(choice),
                          FormatMebibytes(choice.peak_bytes),
                          100.0 * RecomputedShare(estimate, choice));
  }
  const RecomputePlan& taken = estimate.plan.recompute;
  absl::StrAppend(&text, "  this configuration: ", DescribeRecompute(taken));
  if (estimate.plan.budget_bytes > 0) {
    absl::StrAppendFormat(&text, ", %s of a budget of %s%s", FormatMebibytes(taken.peak_bytes),
                          FormatMebibytes(estimate.plan.budget_bytes),
                          taken.fits ? "" : ": too much");
  }
  return text + "\n";
}

nlohmann::ordered_json ChoiceJson(const Estimate& estimate, const RecomputePlan& choice) {
  nlohmann::ordered_json json = {{"recompute", RecomputeName(choice.recompute)}};
  if (choice.recompute == Recompute::kEveryK) json["recompute_every"] = choice.recompute_every;
  json["bytes"] = choice.peak_bytes;
  json["recomputed_flops_share"] = RecomputedShare(estimate, choice);
  return json;
}

}  // namespace

absl::StatusOr<Estimate> EstimateRun(const proto::NmtConfig& config,
                                     const EstimateOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_ASSIGN_OR_RETURN(const Device device, DeviceOf(config));
  const ContextOptions context = ContextOptionsOf(config.trainer(), /*rank=*/0);
  Estimate estimate;
  estimate.model = ModelOptionsOf(config.model());
  estimate.ranks = options.ranks;
  estimate.device = device.type;
  estimate.compute_type = context.compute_type;
  estimate.tokens_per_batch = config.trainer().tokens_per_batch();
  DT_RETURN_IF_ERROR(ReadCorpus(config.data(), estimate));
  if (options.source_length > 0.0) estimate.lengths.source = options.source_length;
  if (options.target_length > 0.0) estimate.lengths.target = options.target_length;
  estimate.parameters = CountParameters(estimate.model);
  estimate.memory = StatesOf(config, estimate);

  const Seq2SeqBatch batch = MicroBatchOf(config.trainer(), options.ranks, estimate.lengths);
  const ActivationOptions activations{.compute_type = context.compute_type,
                                      .recompute_every = context.recompute_every,
                                      .device = device.type};
  int64_t budget = 0;
  if (config.trainer().recompute() == proto::TrainerConfig::auto_) {
    budget = ActivationBudget(config.trainer(), device, options.ranks, estimate.memory.states());
  }
  estimate.plan = PlanMemory(config, estimate.model, batch, device.type, budget);
  estimate.memory.activations = estimate.plan.recompute.peak_bytes;
  estimate.logits = LogitsBytes(estimate.model, batch, activations);
  estimate.choices = ChoicesOf(estimate, batch, activations);
  const Seq2SeqFlops flops = CountFlops(estimate.model, batch, Recompute::kNone);
  estimate.forward_flops = flops.forward;
  estimate.flops_per_token = flops.model() / static_cast<double>(batch.target_tokens);
  estimate.flops_per_update =
      estimate.flops_per_token * static_cast<double>(estimate.tokens_per_batch);
  estimate.checkpoint_bytes = (estimate.memory.average > 0 ? 16 : 12) * estimate.parameters.total();
  return estimate;
}

std::string EstimateText(const Estimate& estimate) {
  std::string text = ParametersText(estimate) + MemoryText(estimate);
  absl::StrAppendFormat(
      &text,
      "compute, forward and backward, sentences of %.1f source and %.1f target tokens\n"
      "  %-22s %20s\n  %-22s %20s  (%d target tokens, all ranks)\n",
      estimate.lengths.source, estimate.lengths.target, "a target token",
      FormatFlops(estimate.flops_per_token), "an update", FormatFlops(estimate.flops_per_update),
      estimate.tokens_per_batch);
  absl::StrAppendFormat(&text, "%-24s %20s  (weights%s and moments)\n", "a checkpoint",
                        FormatMebibytes(estimate.checkpoint_bytes),
                        estimate.memory.average > 0 ? ", average" : "");
  return text;
}

std::string EstimateJson(const Estimate& estimate) {
  const Seq2SeqParameters& counts = estimate.parameters;
  const MemoryEstimate& memory = estimate.memory;
  const Seq2SeqBatch& batch = estimate.plan.batch;
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const RecomputePlan& choice : estimate.choices) {
    choices.push_back(ChoiceJson(estimate, choice));
  }
  const nlohmann::ordered_json json = {
      {"vocab_size", estimate.model.vocab_size},
      {"parameters",
       {{"total", counts.total()},
        {"embeddings", counts.embeddings},
        {"attention", counts.attention},
        {"feed_forward", counts.feed_forward},
        {"layer_norm", counts.layer_norm},
        {"output", counts.output}}},
      {"ranks", estimate.ranks},
      {"device", estimate.device == DeviceType::kCpu ? "cpu" : "cuda"},
      {"precision", std::string(NameOf(estimate.compute_type))},
      {"bytes",
       {{"total", memory.total()},
        {"weights", memory.weights},
        {"compute_copy", memory.compute_copy},
        {"gradients", memory.gradients},
        {"moments", memory.moments},
        {"average", memory.average},
        {"positions", memory.positions},
        {"activations", memory.activations},
        {"logits", estimate.logits}}},
      {"micro_batch",
       {{"source_tokens", batch.source_tokens}, {"target_tokens", batch.target_tokens}}},
      {"recompute", ChoiceJson(estimate, estimate.plan.recompute)},
      {"fits", estimate.plan.recompute.fits},
      {"budget_bytes", estimate.plan.budget_bytes},
      {"activations", choices},
      {"flops_per_target_token", estimate.flops_per_token},
      {"flops_per_update", estimate.flops_per_update},
      {"checkpoint_bytes", estimate.checkpoint_bytes}};
  return json.dump();
}

}  // namespace dtrain
