// estimate_text.cc - an estimate for people and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// Of the products that the model needs.
double RecomputedShare(const Estimate& estimate, const RecomputePlan& plan) {
  return plan.recomputed_flops / (3.0 * estimate.forward_flops);
}

std::string ParametersText(const Estimate& estimate) {
  const ModelParameters& counts = estimate.parameters;
  std::string text =
      absl::StrFormat("program %38s\nparameters %35s  (vocabulary %d)\n", estimate.program,
                      WithCommas(counts.total()), estimate.vocab_size);
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

// `of` is what the activations are for: "4096 source and 4096 target tokens".
template <typename Plan>
std::string MemoryText(const Estimate& estimate, const Plan& plan, const std::string& of) {
  const MemoryEstimate& memory = estimate.memory;
  std::string text = absl::StrFormat("memory of each rank (%d in all), %s on %s\n", estimate.ranks,
                                     NameOf(estimate.compute_type),
                                     estimate.device == DeviceType::kCpu ? "the CPU" : "a GPU");
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
  absl::StrAppend(&text, "activations of ", of, ", by trainer.recompute\n");
  for (const RecomputePlan& choice : estimate.choices) {
    absl::StrAppendFormat(&text, "  %-22s %20s  +%.1f %% FLOPs\n", DescribeRecompute(choice),
                          FormatMebibytes(choice.peak_bytes),
                          100.0 * RecomputedShare(estimate, choice));
  }
  const RecomputePlan& taken = plan.recompute;
  absl::StrAppend(&text, "  this configuration: ", DescribeRecompute(taken));
  if (plan.budget_bytes > 0) {
    absl::StrAppendFormat(&text, ", %s of a budget of %s%s", FormatMebibytes(taken.peak_bytes),
                          FormatMebibytes(plan.budget_bytes), taken.fits ? "" : ": too much");
  }
  return text + "\n";
}

// `of` is what the operations are for, `token` the kind of token they are counted by.
std::string ComputeText(const Estimate& estimate, const std::string& of, const std::string& token) {
  std::string text = absl::StrFormat(
      "compute, forward and backward, %s\n  %-22s %20s\n  %-22s %20s  (%d %ss, all ranks)\n", of,
      "a " + token, FormatFlops(estimate.flops_per_token), "an update",
      FormatFlops(estimate.flops_per_update), estimate.tokens_per_batch, token);
  if (estimate.seconds_per_update > 0.0) {
    absl::StrAppendFormat(&text, "  %-22s %18.3g s  (its products alone, recomputed ones too)\n",
                          "its time", estimate.seconds_per_update);
  }
  absl::StrAppendFormat(&text, "%-24s %20s  (weights%s and moments)\n", "a checkpoint",
                        FormatMebibytes(estimate.checkpoint_bytes),
                        estimate.memory.average > 0 ? ", average" : "");
  for (const std::string& note : estimate.notes) absl::StrAppend(&text, "note  ", note, "\n");
  return text;
}

nlohmann::ordered_json ChoiceJson(const Estimate& estimate, const RecomputePlan& choice) {
  nlohmann::ordered_json json = {{"recompute", RecomputeName(choice.recompute)}};
  if (choice.recompute == Recompute::kEveryK) json["recompute_every"] = choice.recompute_every;
  json["bytes"] = choice.peak_bytes;
  json["recomputed_flops_share"] = RecomputedShare(estimate, choice);
  return json;
}

// What all estimates have; `token` is the kind of token that FLOPs are counted by.
template <typename Plan>
nlohmann::ordered_json CommonJson(const Estimate& estimate, const Plan& plan,
                                  const nlohmann::ordered_json& micro_batch,
                                  const std::string& token) {
  const ModelParameters& counts = estimate.parameters;
  const MemoryEstimate& memory = estimate.memory;
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const RecomputePlan& choice : estimate.choices) {
    choices.push_back(ChoiceJson(estimate, choice));
  }
  return {{"program", estimate.program},
          {"vocab_size", estimate.vocab_size},
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
            {"evaluation", memory.evaluation},
            {"exchange", memory.exchange},
            {"workspace", memory.workspace}}},
          {"micro_batch", micro_batch},
          {"recompute", ChoiceJson(estimate, plan.recompute)},
          {"fits", plan.recompute.fits},
          {"budget_bytes", plan.budget_bytes},
          {"activations", choices},
          {"flops_per_" + token, estimate.flops_per_token},
          {"flops_per_update", estimate.flops_per_update},
          {"seconds_per_update", estimate.seconds_per_update},
          {"checkpoint_bytes", estimate.checkpoint_bytes},
          {"notes", estimate.notes}};
}

}  // namespace

std::string EstimateText(const TranslationEstimate& estimate) {
  const Seq2SeqBatch& batch = estimate.plan.batch;
  const std::string activations =
      absl::StrFormat("%d source and %d target tokens (logits %s)", batch.source_tokens,
                      batch.target_tokens, FormatMebibytes(estimate.logits));
  const std::string compute = absl::StrFormat("sentences of %.1f source and %.1f target tokens",
                                              estimate.lengths.source, estimate.lengths.target);
  return ParametersText(estimate) + MemoryText(estimate, estimate.plan, activations) +
         ComputeText(estimate, compute, "target token");
}

std::string EstimateText(const BertEstimate& estimate) {
  const BertBatch& batch = estimate.plan.batch;
  const std::string& row = estimate.head.row;
  const std::string activations =
      absl::StrFormat("%d %ss of %d tokens together", batch.texts, row, batch.tokens);
  const std::string compute = absl::StrFormat("%ss of %.1f tokens", row, estimate.lengths.mean);
  return ParametersText(estimate) + MemoryText(estimate, estimate.plan, activations) +
         ComputeText(estimate, compute, "token");
}

std::string EstimateJson(const TranslationEstimate& estimate) {
  const Seq2SeqBatch& batch = estimate.plan.batch;
  nlohmann::ordered_json json =
      CommonJson(estimate, estimate.plan,
                 {{"source_tokens", batch.source_tokens}, {"target_tokens", batch.target_tokens}},
                 "target_token");
  json["bytes"]["logits"] = estimate.logits;
  return json.dump();
}

std::string EstimateJson(const BertEstimate& estimate) {
  const BertBatch& batch = estimate.plan.batch;
  return CommonJson(estimate, estimate.plan, {{"tokens", batch.tokens}, {"texts", batch.texts}},
                    "token")
      .dump();
}

}  // namespace dtrain
