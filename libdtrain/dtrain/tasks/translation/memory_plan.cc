// memory_plan.cc - micro-batches from the lengths of sentences.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/memory_options.h"
#include "dtrain/tasks/translation/options.h"

namespace dtrain {
namespace {

// The means of an epoch, which holds pairs of some sources more often than of others.
MeanLengths MeanLengthsOfMix(const TokenShard& shard) {
  const std::vector<int64_t> shares = SamplesPerEpoch(shard.sources());
  const auto pairs = static_cast<double>(shard.size());
  MeanLengths lengths{1.0, 1.0};
  int64_t row = 0;
  for (size_t s = 0; s < shares.size(); ++s) {
    const int64_t samples = shard.sources()[s].samples;
    const double times = static_cast<double>(shares[s]) / static_cast<double>(samples);
    for (const int64_t end = row + samples; row < end; ++row) {
      lengths.source += times * shard.source_length(row) / pairs;
      lengths.target += times * shard.target_length(row) / pairs;
    }
  }
  return lengths;
}

}  // namespace

MeanLengths MeanLengthsOf(const TokenShard& shard) {
  if (!shard.sources().empty()) return MeanLengthsOfMix(shard);
  const auto pairs = static_cast<double>(std::max<int64_t>(shard.size(), 1));
  return {.source = static_cast<double>(shard.source_tokens()) / pairs + 1.0,
          .target = static_cast<double>(shard.target_tokens()) / pairs + 1.0};
}

Seq2SeqBatch MicroBatchOf(const proto::TrainerConfig& config, int ranks,
                          const MeanLengths& lengths) {
  const int64_t share = (config.tokens_per_batch() + ranks - 1) / ranks;
  const int64_t micro_batches =
      (share + config.micro_batch_tokens() - 1) / config.micro_batch_tokens();
  const int64_t target = (share + micro_batches - 1) / micro_batches;
  const double source = static_cast<double>(target) * lengths.source / lengths.target;
  return {.source_tokens = std::llround(std::ceil(source)),
          .target_tokens = target,
          .source_length = lengths.source,
          .target_length = lengths.target};
}

std::string TokensText(const Seq2SeqBatch& batch) {
  return absl::StrFormat("%d + %d tokens", batch.source_tokens, batch.target_tokens);
}

MemoryOptions MemoryOptionsOf(const proto::NmtConfig& config) {
  return internal::MemoryOptionsOf(config.trainer(), config.optimizer(),
                                   ContextOptionsOf(config.trainer(), /*rank=*/0));
}

std::string MemoryRemedies(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                           const Seq2SeqBatch& batch, const MemoryPlan& plan, DeviceType device) {
  // A micro-batch holds at least one sentence.
  const int64_t longest = int64_t{config.data().max_length()} + 1;
  Seq2SeqBatch half = batch;
  half.target_tokens = std::max(half.target_tokens / 2, std::min(half.target_tokens, longest));
  half.source_tokens = half.source_tokens * half.target_tokens / batch.target_tokens;
  const HalvedCosts costs{.whole = CostsOf(model, batch),
                          .half = CostsOf(model, half),
                          .half_tokens = half.target_tokens};
  return MemoryRemedies(MemoryOptionsOf(config), plan, costs, device);
}

}  // namespace dtrain
