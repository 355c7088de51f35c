// estimate_text.cc - an estimate for people and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/internal/json_text.h"
#include "planning/estimate.h"

namespace dtrain {
namespace {

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

// The share of the products that the model needs.
double RecomputedShare(const Estimate& estimate, const RecomputePlan& plan) {
  return plan.recomputed_flops / estimate.model_flops;
}

std::string ParametersText(const Estimate& estimate) {
  const ModelParameters& counts = estimate.workload.parameters;
  std::string text =
      absl::StrFormat("program %38s\nparameters %35s  (vocabulary %d)\n", estimate.program,
                      WithCommas(counts.total()), estimate.workload.vocab_size);
  const std::pair<const char*, int64_t> kinds[] = {{"embeddings", counts.embeddings},
                                                   {"attention", counts.attention},
                                                   {"feed-forward", counts.feed_forward},
                                                   {"layer norm", counts.layer_norm},
                                                   {"output", counts.output},
                                                   {"adapters", counts.adapters}};
  for (const auto& [name, count] : kinds) {
    if (count > 0) absl::StrAppendFormat(&text, "  %-22s %20s\n", name, WithCommas(count));
  }
  if (counts.frozen > 0) {
    absl::StrAppendFormat(&text, "  %-22s %20s\n", "of these trained",
                          WithCommas(counts.trained()));
  }
  return text;
}

std::string MemoryText(const Estimate& estimate) {
  const Workload& work = estimate.workload;
  const MemoryEstimate& memory = estimate.memory;
  std::string text = absl::StrFormat("memory of each rank (%d in all), %s on %s\n", estimate.ranks,
                                     NameOf(work.memory.context.compute_type),
                                     work.device.type == DeviceType::kCpu ? "the CPU" : "a GPU");
  const std::pair<const char*, int64_t> kinds[] = {
      {"weights", memory.weights},
      {"compute copy", memory.compute_copy},
      {"gradients", memory.gradients},
      {"moments", memory.moments},
      {"average", memory.average},
      {"positions", memory.positions},
      {"activations", memory.activations},
      {memory.evaluation > memory.activations ? "or evaluation" : "", memory.evaluation},
      {"exchange", memory.exchange},
      {"workspace", memory.workspace}};
  for (const auto& [name, bytes] : kinds) {
    if (bytes > 0 && *name != '\0')
      absl::StrAppendFormat(&text, "  %-22s %20s\n", name, FormatMebibytes(bytes));
  }
  absl::StrAppendFormat(&text, "  %-22s %20s\n", "total", FormatMebibytes(memory.total()));
  absl::StrAppend(&text, "activations of ", work.micro_batch, ", by trainer.recompute\n");
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

std::string ComputeText(const Estimate& estimate) {
  const Workload& work = estimate.workload;
  std::string text = absl::StrFormat(
      "compute, forward and backward, %s\n  %-22s %20s\n  %-22s %20s  (%d %ss, all ranks)\n",
      work.sequences, "a " + work.token, FormatFlops(work.flops_per_token), "an update",
      FormatFlops(estimate.flops_per_update), work.tokens_per_batch, work.token);
  if (estimate.seconds_per_update > 0.0) {
    absl::StrAppendFormat(&text, "  %-22s %18.3g s  (its products alone, recomputed ones too)\n",
                          "its time", estimate.seconds_per_update);
  }
  absl::StrAppendFormat(&text, "%-24s %20s  (weights%s and moments)\n", "a checkpoint",
                        FormatMebibytes(estimate.checkpoint_bytes),
                        estimate.memory.average > 0 ? ", average" : "");
  for (const std::string& note : work.notes) absl::StrAppend(&text, "note  ", note, "\n");
  return text;
}

nlohmann::ordered_json ChoiceJson(const Estimate& estimate, const RecomputePlan& choice) {
  nlohmann::ordered_json json = {{"recompute", RecomputeName(choice.recompute)}};
  if (choice.recompute == Recompute::kEveryK) json["recompute_every"] = choice.recompute_every;
  json["bytes"] = choice.peak_bytes;
  json["recomputed_flops_share"] = RecomputedShare(estimate, choice);
  return json;
}

}  // namespace

std::string EstimateText(const Estimate& estimate) {
  return ParametersText(estimate) + MemoryText(estimate) + ComputeText(estimate);
}

std::string EstimateJson(const Estimate& estimate) {
  const Workload& work = estimate.workload;
  const ModelParameters& counts = estimate.workload.parameters;
  const MemoryEstimate& memory = estimate.memory;
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const RecomputePlan& choice : estimate.choices) {
    choices.push_back(ChoiceJson(estimate, choice));
  }
  nlohmann::ordered_json micro_batch;
  for (const auto& [name, count] : work.micro_batch_counts) micro_batch[name] = count;
  nlohmann::ordered_json json = {
      {"program", estimate.program},
      {"vocab_size", work.vocab_size},
      {"parameters",
       {{"total", counts.total()},
        {"embeddings", counts.embeddings},
        {"attention", counts.attention},
        {"feed_forward", counts.feed_forward},
        {"layer_norm", counts.layer_norm},
        {"output", counts.output},
        {"adapters", counts.adapters},
        {"trained", counts.trained()}}},
      {"ranks", estimate.ranks},
      {"device", work.device.type == DeviceType::kCpu ? "cpu" : "cuda"},
      {"precision", std::string(NameOf(work.memory.context.compute_type))},
      {"bytes",
       {{"total", memory.total()},
        {"weights", memory.weights},
        {"compute_copy", memory.compute_copy},
        {"gradients", memory.gradients},
        {"moments", memory.moments},
        {"average", memory.average},
        {"positions", memory.positions},
        {"activations", memory.activations},
        {"evaluation", memory.evaluation},
        {"exchange", memory.exchange},
        {"workspace", memory.workspace}}},
      {"micro_batch", micro_batch},
      {"recompute", ChoiceJson(estimate, estimate.plan.recompute)},
      {"fits", estimate.plan.recompute.fits},
      {"budget_bytes", estimate.plan.budget_bytes},
      {"activations", choices},
      {"flops_per_" + absl::StrReplaceAll(work.token, {{" ", "_"}}), work.flops_per_token},
      {"flops_per_update", estimate.flops_per_update},
      {"seconds_per_update", estimate.seconds_per_update},
      {"checkpoint_bytes", estimate.checkpoint_bytes},
      {"notes", work.notes}};
  for (const auto& [name, bytes] : work.activation_parts) json["bytes"][name] = bytes;
  return internal::JsonText(json);
}

}  // namespace dtrain
