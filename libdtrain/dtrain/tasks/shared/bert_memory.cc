// bert_memory.cc - micro-batches from the lengths of texts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/bert_memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/bert.pb.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {

TextLengths TextLengthsOf(std::span<const int32_t> texts) {
  const auto longest = std::max_element(texts.begin(), texts.end());
  if (longest == texts.end()) return TextLengthsOfCounts({});
  std::vector<int64_t> counts(static_cast<size_t>(*longest) + 1);
  for (const int32_t length : texts) ++counts[static_cast<size_t>(length)];
  return TextLengthsOfCounts(counts);
}

TextLengths TextLengthsOfCounts(std::span<const int64_t> counts) {
  TextLengths lengths{.mean = 0.0, .longest = 1};
  const auto texts = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  double squares = 0.0;
  for (size_t length = 0; length < counts.size(); ++length) {
    if (counts[length] == 0) continue;
    const auto tokens = static_cast<double>(length);
    const double share = static_cast<double>(counts[length]) / static_cast<double>(texts);
    lengths.mean += tokens * share;
    squares += tokens * tokens * share;
    lengths.longest = std::max(lengths.longest, static_cast<int64_t>(length));
  }
  lengths.deviation = std::sqrt(std::max(squares - lengths.mean * lengths.mean, 0.0));
  return lengths;
}

BertBatch MicroBatchOf(const proto::BertTrainerConfig& config, int ranks,
                       const TextLengths& lengths) {
  constexpr double kDeviations = 4.0;
  const BatchOptions batch = BertBatchOf(config);
  const int64_t parts =
      int64_t{ranks} * MicroBatchesOf(batch, config.micro_batch_tokens(), lengths.longest, ranks);
  if (batch.samples_per_batch == 0) {
    const int64_t tokens = (batch.tokens_per_batch + parts - 1) / parts;
    const auto texts = std::llround(static_cast<double>(tokens) / std::max(lengths.mean, 1.0));
    return {.tokens = tokens, .texts = std::max<int64_t>(texts, 1)};
  }
  const int64_t texts = (batch.samples_per_batch + parts - 1) / parts;
  const auto count = static_cast<double>(texts);
  const double tokens = count * lengths.mean + kDeviations * lengths.deviation * std::sqrt(count);
  const double most = count * static_cast<double>(lengths.longest);
  return {.tokens = std::llround(std::min(tokens, most)), .texts = texts};
}

std::string TokensText(const BertBatch& batch) {
  return absl::StrFormat("%d tokens", batch.tokens);
}

std::string BertMemoryRemedies(const proto::BertTrainerConfig& trainer,
                               const MemoryOptions& options, const MemoryPlan& plan,
                               const BertCosts& costs, const BertBatch& batch, int64_t max_length,
                               DeviceType device) {
  // A micro-batch holds at least one text.
  BertBatch half = batch;
  half.texts = std::max<int64_t>(half.texts / 2, 1);
  half.tokens = half.tokens * half.texts / batch.texts;
  const bool by_tokens = trainer.tokens_per_batch() > 0;
  const HalvedCosts halved{.whole = costs(batch),
                           .half = costs(half),
                           .half_tokens = by_tokens ? half.tokens : half.texts * max_length};
  return MemoryRemedies(options, plan, halved, device);
}

}  // namespace dtrain
