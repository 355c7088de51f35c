// low_rank.cc - which layers get adapters.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/low_rank.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/model.pb.h"
#include "dtrain/nn/frozen_parameters.h"

namespace dtrain::internal {
namespace {

// Of "bert.encoder.layer.0.attention.output.dense" the part behind the layer's number.
std::string WithoutLayer(const std::string& name) {
  const size_t digit = name.find_last_of("0123456789");
  return digit == std::string::npos ? name : name.substr(name.find('.', digit) + 1);
}

Status CheckTargetsAre(const LowRankOptions& options, const FrozenParameters& frozen) {
  for (const std::string& target : options.targets) {
    const auto is_target = [&](const std::string& name) {
      return IsTarget(name, std::span(&target, 1));
    };
    if (std::ranges::any_of(frozen.linears(), is_target)) continue;
    std::set<std::string> known;
    for (const std::string& name : frozen.linears()) known.insert(WithoutLayer(name));
    return UsageError(
        absl::StrFormat("model.lora.targets: no linear layer of this model is called %s; there are "
                        "%s, and %s for all of them",
                        target, absl::StrJoin(known, ", "), LowRankOptions::kAllLinear));
  }
  return OkStatus();
}

}  // namespace

LowRankOptions LowRankOf(const proto::LoraConfig& lora, const AttentionNames& names) {
  if (lora.rank() == 0) return {};
  LowRankOptions options{.rank = lora.rank(),
                         .alpha = lora.alpha(),
                         .targets = {lora.targets().begin(), lora.targets().end()}};
  if (options.targets.empty() && names.input.empty()) {
    options.targets = {std::string(names.query), std::string(names.value)};
  } else if (options.targets.empty()) {
    options.targets = {std::string(names.input)};
  }
  return options;
}

Status ValidateLora(const proto::LoraConfig& lora, bool has_weights, std::string_view keys) {
  if (lora.rank() == 0) {
    const bool has_alpha = lora.alpha() != proto::LoraConfig::default_instance().alpha();
    if (lora.targets().empty() && !has_alpha) return OkStatus();
    return UsageError(absl::StrFormat("model.lora.%s is set, but model.lora.rank is 0: give a rank",
                                      has_alpha ? "alpha" : "targets"));
  }
  if (has_weights) return OkStatus();
  return UsageError(
      absl::StrFormat("model.lora trains small changes of pretrained weights: set %s, or leave "
                      "model.lora out",
                      ToAbsl(keys)));
}

Status CheckTargets(const BertOptions& options) {
  if (options.low_rank.rank == 0) return OkStatus();
  ParameterSet named;
  const BertEncoder encoder(Scope(named, std::string(options.family->encoder)), options);
  return CheckTargetsAre(options.low_rank, FrozenOf(named));
}

Status CheckTargets(const Seq2SeqOptions& options) {
  if (options.low_rank.rank == 0) return OkStatus();
  Seq2SeqTransformer named(options);
  return CheckTargetsAre(options.low_rank, FrozenOf(named.parameters()));
}

}  // namespace dtrain::internal
