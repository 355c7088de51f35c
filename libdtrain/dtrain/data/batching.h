// batching.h - which pairs make up which update: a pure function of lengths, options and epoch.
// SPDX-License-Identifier: Apache-2.0
//
//   const EpochPlan plan(lengths, options, epoch);          // the same on every rank
//   std::span<const uint32_t> batch = plan.BatchFrom(cursor);  // pairs of one update, all ranks
//   auto parts = SplitByTokens(batch, lengths, ranks * accumulation);
//   cursor += batch.size();
//
// One update takes one global batch, cut by a budget of tokens that counts all ranks together. So
// the order of the samples, and the updates themselves, do not depend on the number of ranks, and
// (epoch, cursor) is all that a run must remember. Every pair occurs once in an epoch; the last
// batch is what is left. Nothing is padded, hence batches need not hold pairs of like length: by
// default they are plain random samples, which train best, and the split among ranks evens out the
// work.
#ifndef DTRAIN_DATA_BATCHING_H_
#define DTRAIN_DATA_BATCHING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

// Lengths in pieces, the end of sentence not counted. Views: they outlive whoever uses them.
struct PairLengths {
  std::span<const int32_t> source;
  std::span<const int32_t> target;

  int64_t size() const { return static_cast<int64_t>(source.size()); }
  // Tokens that training computes for a pair: both sides with their ends of sentence.
  int64_t Work(int64_t i) const {
    return int64_t{source[static_cast<size_t>(i)]} + target[static_cast<size_t>(i)] + 2;
  }
};

// What a pair costs of the budget; ends of sentence count.
enum class BudgetUnit { kTargetTokens, kLongerSide, kBothSides };

struct BatchOptions {
  int64_t tokens_per_batch = 8192;  // of one update over all ranks and micro-batches
  BudgetUnit unit = BudgetUnit::kTargetTokens;
  uint64_t seed = 1;
  bool shuffle = true;  // false: in the order of the file
  // Sorts pairs by length within stretches of so many before cutting, then shuffles the batches:
  // batches of like length, where a device gains by that. 0: off.
  int64_t length_window = 0;
};

// The batches of one epoch. 4 bytes of memory a pair.
class EpochPlan {
 public:
  // A pair that is longer than the budget makes a batch of its own. At most 2^32 - 1 pairs.
  EpochPlan(const PairLengths& lengths, const BatchOptions& options, int64_t epoch);

  int64_t num_samples() const { return static_cast<int64_t>(order_.size()); }
  int64_t num_batches() const { return static_cast<int64_t>(starts_.size()) - 1; }
  // Position in the epoch of a batch's first sample; that of batch num_batches() is num_samples().
  int64_t start(int64_t batch) const { return starts_[static_cast<size_t>(batch)]; }
  // Pairs of a batch, as rows of the lengths.
  std::span<const uint32_t> Batch(int64_t batch) const;
  // From position `cursor` < num_samples() to the end of the batch it lies in: a whole batch,
  // unless the run was resumed with another budget.
  std::span<const uint32_t> BatchFrom(int64_t cursor) const;

 private:
  std::vector<uint32_t> order_;
  std::vector<int64_t> starts_;
};

// Divides pairs into `parts` lists of about equal work, longest pairs first in each; the same
// everywhere. With fewer pairs than parts the last lists are empty.
std::vector<std::vector<uint32_t>> SplitByTokens(std::span<const uint32_t> samples,
                                                 const PairLengths& lengths, int parts);

}  // namespace dtrain

#endif  // DTRAIN_DATA_BATCHING_H_
