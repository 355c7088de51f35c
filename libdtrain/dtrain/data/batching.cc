// batching.cc - shuffle, group, cut; and the greedy split among ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/batching.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"

namespace dtrain {
namespace {

// Sites of the random streams: one for samples, one for batches.
constexpr uint32_t kSampleSite = 0x53414D50;
constexpr uint32_t kBatchSite = 0x42415443;

// Fisher-Yates.
template <typename T>
void Shuffle(std::vector<T>& items, const RandomKey& key) {
  RandomStream random(key);
  for (size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.NextBelow(static_cast<uint32_t>(i))]);
  }
}

int64_t Cost(const PairLengths& lengths, uint32_t i, BudgetUnit unit) {
  const int64_t source = lengths.source[i] + 1;
  const int64_t target = lengths.target[i] + 1;
  switch (unit) {
    case BudgetUnit::kTargetTokens:
      return target;
    case BudgetUnit::kLongerSide:
      return std::max(source, target);
    case BudgetUnit::kBothSides:
      return source + target;
  }
  return 0;
}

// Sorts each stretch of `window` pairs by target, then source length.
void SortWindows(const PairLengths& lengths, int64_t window, std::vector<uint32_t>& order) {
  const auto count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0; begin < count; begin += window) {
    const int64_t end = std::min(begin + window, count);
    std::stable_sort(order.begin() + begin, order.begin() + end, [&](uint32_t a, uint32_t b) {
      return std::pair(lengths.target[a], lengths.source[a]) <
             std::pair(lengths.target[b], lengths.source[b]);
    });
  }
}

// Where batches start, closed by the number of samples. A window's end ends a batch.
std::vector<int64_t> CutBatches(const PairLengths& lengths, const BatchOptions& options,
                                const std::vector<uint32_t>& order) {
  std::vector<int64_t> starts = {0};
  int64_t tokens = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    const int64_t cost = Cost(lengths, order[i], options.unit);
    const bool window_ends =
        options.length_window > 0 && position > 0 && position % options.length_window == 0;
    if (tokens > 0 && (tokens + cost > options.tokens_per_batch || window_ends)) {
      starts.push_back(position);
      tokens = 0;
    }
    tokens += cost;
  }
  if (!order.empty()) starts.push_back(static_cast<int64_t>(order.size()));
  return starts;
}

}  // namespace

EpochPlan::EpochPlan(const PairLengths& lengths, const BatchOptions& options, int64_t epoch) {
  DT_CHECK_EQ(lengths.source.size(), lengths.target.size());
  DT_CHECK_LT(lengths.source.size(), size_t{std::numeric_limits<uint32_t>::max()});
  DT_CHECK_GT(options.tokens_per_batch, 0);
  DT_CHECK_GE(options.length_window, 0);
  order_.resize(lengths.source.size());
  std::iota(order_.begin(), order_.end(), 0u);
  const auto step = static_cast<uint32_t>(epoch);
  if (options.shuffle) Shuffle(order_, {.seed = options.seed, .step = step, .site = kSampleSite});
  if (options.length_window > 0) SortWindows(lengths, options.length_window, order_);
  starts_ = CutBatches(lengths, options, order_);
  if (!options.shuffle || options.length_window == 0 || num_batches() == 0) return;

  // Short and long batches must not follow each other in order of length.
  std::vector<int64_t> batches(static_cast<size_t>(num_batches()));
  std::iota(batches.begin(), batches.end(), int64_t{0});
  Shuffle(batches, {.seed = options.seed, .step = step, .site = kBatchSite});
  std::vector<uint32_t> order;
  std::vector<int64_t> starts = {0};
  order.reserve(order_.size());
  for (const int64_t batch : batches) {
    const std::span<const uint32_t> samples = Batch(batch);
    order.insert(order.end(), samples.begin(), samples.end());
    starts.push_back(static_cast<int64_t>(order.size()));
  }
  order_ = std::move(order);
  starts_ = std::move(starts);
}

std::span<const uint32_t> EpochPlan::Batch(int64_t batch) const {
  DT_CHECK(batch >= 0 && batch < num_batches()) << "batch " << batch << " of " << num_batches();
  return std::span(order_).subspan(static_cast<size_t>(start(batch)),
                                   static_cast<size_t>(start(batch + 1) - start(batch)));
}

std::span<const uint32_t> EpochPlan::BatchFrom(int64_t cursor) const {
  DT_CHECK(cursor >= 0 && cursor < num_samples()) << cursor << " of " << num_samples();
  const int64_t end = *std::upper_bound(starts_.begin(), starts_.end(), cursor);
  return std::span(order_).subspan(static_cast<size_t>(cursor), static_cast<size_t>(end - cursor));
}

std::vector<std::vector<uint32_t>> SplitByTokens(std::span<const uint32_t> samples,
                                                 const PairLengths& lengths, int parts) {
  DT_CHECK_GT(parts, 0);
  std::vector<uint32_t> longest_first(samples.begin(), samples.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](uint32_t a, uint32_t b) { return lengths.Work(a) > lengths.Work(b); });
  // Each pair goes to the part with the least work so far, the first of equals.
  using Load = std::pair<int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int part = 0; part < parts; ++part) loads.emplace(0, part);
  std::vector<std::vector<uint32_t>> result(static_cast<size_t>(parts));
  for (const uint32_t sample : longest_first) {
    const auto [work, part] = loads.top();
    loads.pop();
    result[static_cast<size_t>(part)].push_back(sample);
    loads.emplace(work + lengths.Work(sample), part);
  }
  return result;
}

}  // namespace dtrain
