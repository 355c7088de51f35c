// batching.cc - shuffles, groups and splits samples, and balances them among ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/batching.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/shuffle.h"

namespace dtrain {
namespace {

// Sites of the random streams for samples and for batches.
constexpr uint32_t kSampleSite = 0x53414D50;
constexpr uint32_t kBatchSite = 0x42415443;

int64_t Cost(const SampleLengths& lengths, uint32_t i, BudgetUnit unit) {
  const int64_t source = lengths.SourceTokens(i);
  if (lengths.target.empty()) return source;
  const int64_t target = lengths.TargetTokens(i);
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

// Sorts each window of `window` samples by target length, then source length.
void SortWindows(const SampleLengths& lengths, int64_t window, std::vector<uint32_t>& order) {
  const auto count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0; begin < count; begin += window) {
    const int64_t end = std::min(begin + window, count);
    std::stable_sort(order.begin() + begin, order.begin() + end, [&](uint32_t a, uint32_t b) {
      return std::pair(lengths.TargetTokens(a), lengths.SourceTokens(a)) <
             std::pair(lengths.TargetTokens(b), lengths.SourceTokens(b));
    });
  }
}

// The start of each batch, followed by the number of samples. Batches end at the end of a window.
std::vector<int64_t> CutBatches(const SampleLengths& lengths, const BatchOptions& options,
                                const std::vector<uint32_t>& order) {
  std::vector<int64_t> starts = {0};
  const bool count_samples = options.samples_per_batch > 0;
  const int64_t budget = count_samples ? options.samples_per_batch : options.tokens_per_batch;
  int64_t used = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    const int64_t cost = count_samples ? 1 : Cost(lengths, order[i], options.unit);
    const bool window_ends =
        options.length_window > 0 && position > 0 && position % options.length_window == 0;
    if (used > 0 && (used + cost > budget || window_ends)) {
      starts.push_back(position);
      used = 0;
    }
    used += cost;
  }
  if (!order.empty()) starts.push_back(static_cast<int64_t>(order.size()));
  return starts;
}

// The batch sizes that a window is split into.
BatchOptions BudgetOf(const SampleOrder& order) {
  return {.tokens_per_batch = order.tokens_per_batch,
          .samples_per_batch = order.samples_per_batch,
          .unit = order.unit,
          .length_window = order.length_window};
}

// Positions in `samples`, the longest first. Samples of equal work keep their order.
std::vector<uint32_t> LongestFirst(std::span<const uint32_t> samples,
                                   const SampleLengths& lengths) {
  std::vector<uint32_t> positions(samples.size());
  std::iota(positions.begin(), positions.end(), 0u);
  std::stable_sort(positions.begin(), positions.end(), [&](uint32_t a, uint32_t b) {
    return lengths.Work(samples[a]) > lengths.Work(samples[b]);
  });
  return positions;
}

// Gives each item to the part with the least work so far; of equal parts, to the first.
class LightestPart {
 public:
  explicit LightestPart(int parts) {
    DT_CHECK_GT(parts, 0);
    for (size_t part = 0; part < static_cast<size_t>(parts); ++part) loads_.emplace(0, part);
  }
  size_t Take(int64_t work) {
    const auto [load, part] = loads_.top();
    loads_.pop();
    loads_.emplace(load + work, part);
    return part;
  }

 private:
  using Load = std::pair<int64_t, size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads_;
};

}  // namespace

SampleOrder SampleOrderOf(const BatchOptions& options) {
  SampleOrder order{.shuffle = options.shuffle,
                    .seed = options.shuffle ? options.seed : 0,
                    .length_window = options.length_window};
  if (!options.shuffle || options.length_window == 0) return order;
  order.samples_per_batch = options.samples_per_batch;
  if (options.samples_per_batch > 0) return order;
  order.tokens_per_batch = options.tokens_per_batch;
  order.unit = options.unit;
  return order;
}

EpochPlan::EpochPlan(const SampleLengths& lengths, const BatchOptions& options, int64_t epoch,
                     const SampleOrder& order) {
  if (!lengths.target.empty()) DT_CHECK_EQ(lengths.source.size(), lengths.target.size());
  DT_CHECK_LT(lengths.size(), int64_t{std::numeric_limits<uint32_t>::max()});
  DT_CHECK_GE(options.samples_per_batch, 0);
  DT_CHECK_GT(options.tokens_per_batch, 0);
  DT_CHECK_GE(order.length_window, 0);
  if (lengths.sources.empty()) {
    order_.resize(static_cast<size_t>(lengths.size()));
    std::iota(order_.begin(), order_.end(), 0u);
  } else {
    order_ = DrawSamples(lengths.sources, epoch, {.shuffle = order.shuffle, .seed = order.seed});
    DT_CHECK_EQ(num_samples(), lengths.size());
  }
  if (order.shuffle) {
    internal::Shuffle(
        std::span(order_),
        {.seed = order.seed, .step = static_cast<uint32_t>(epoch), .site = kSampleSite});
  }
  if (order.length_window > 0) SortWindows(lengths, order.length_window, order_);
  // Otherwise batches would follow each other in order of length.
  const bool mixes_batches = order.shuffle && order.length_window > 0;
  if (mixes_batches) {
    starts_ = CutBatches(lengths, BudgetOf(order), order_);
    ShuffleBatches(order.seed, epoch);
  }
  const bool is_own = order == SampleOrderOf(options);
  if (mixes_batches && is_own) return;
  BatchOptions budget = options;
  if (!is_own) budget.length_window = 0;
  starts_ = CutBatches(lengths, budget, order_);
}

void EpochPlan::ShuffleBatches(uint64_t seed, int64_t epoch) {
  std::vector<int64_t> batches(static_cast<size_t>(num_batches()));
  std::iota(batches.begin(), batches.end(), int64_t{0});
  internal::Shuffle(std::span(batches),
                    {.seed = seed, .step = static_cast<uint32_t>(epoch), .site = kBatchSite});
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

int64_t EpochPlan::NumBatchesFrom(int64_t cursor) const {
  return starts_.end() - std::upper_bound(starts_.begin(), starts_.end(), cursor);
}

std::vector<std::vector<uint32_t>> SplitByTokens(std::span<const uint32_t> samples,
                                                 const SampleLengths& lengths, int parts) {
  std::vector<std::vector<uint32_t>> result(static_cast<size_t>(parts));
  LightestPart lightest(parts);
  for (const uint32_t position : LongestFirst(samples, lengths)) {
    result[lightest.Take(lengths.Work(samples[position]))].push_back(position);
  }
  return result;
}

std::vector<std::vector<uint32_t>> EvaluationBatches(const SampleLengths& lengths,
                                                     int64_t tokens_per_batch, int rank,
                                                     int num_ranks, BudgetUnit unit) {
  DT_CHECK_GT(tokens_per_batch, 0);
  DT_CHECK(rank >= 0 && rank < num_ranks) << "rank " << rank << " of " << num_ranks;
  std::vector<uint32_t> all(static_cast<size_t>(lengths.size()));
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<uint32_t> order = LongestFirst(all, lengths);
  std::vector<std::vector<uint32_t>> own;
  LightestPart lightest(num_ranks);
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    int64_t tokens = 0;
    int64_t work = 0;
    while (end < order.size() &&
           (end == begin || tokens + Cost(lengths, order[end], unit) <= tokens_per_batch)) {
      tokens += Cost(lengths, order[end], unit);
      work += lengths.Work(order[end++]);
    }
    if (lightest.Take(work) == static_cast<size_t>(rank)) {
      own.emplace_back(order.begin() + static_cast<int64_t>(begin),
                       order.begin() + static_cast<int64_t>(end));
    }
    begin = end;
  }
  return own;
}

}  // namespace dtrain
