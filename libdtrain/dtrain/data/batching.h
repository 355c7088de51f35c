// batching.h - which samples make up which update: a pure function of lengths, options and epoch.
// SPDX-License-Identifier: Apache-2.0
//
//   const EpochPlan plan(lengths, options, epoch);          // the same on every rank
//   std::span<const uint32_t> batch = plan.BatchFrom(cursor);  // samples of one update, all ranks
//   auto parts = SplitByTokens(batch, lengths, ranks * accumulation);
//   cursor += batch.size();
//
// One update takes one global batch, cut by a budget of tokens, or of samples, that counts all
// ranks together. So the order of the samples, and the updates themselves, do not depend on the
// number of ranks, and (epoch, cursor, SampleOrder) is all that a run must remember. Every sample
// occurs once in an epoch, also where a run goes on with other options in the middle of one: that
// epoch keeps its order. The last batch is what is left. Nothing is padded, hence batches need not
// hold samples of like length: by default they are plain random samples, which train best, and the
// split among ranks evens out the work.
#ifndef DTRAIN_DATA_BATCHING_H_
#define DTRAIN_DATA_BATCHING_H_

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/random.h"

namespace dtrain {

// Lengths of sequences in 32 bits each, or in 16 where there are very many. A view, made as a span
// is.
class LengthView {
 public:
  LengthView() = default;
  template <typename Range>
  requires std::convertible_to<const Range&, std::span<const int32_t>> LengthView(
      const Range& lengths)
      : wide_(lengths), size_(static_cast<int64_t>(wide_.size())) {}
  template <typename Range>
  requires std::convertible_to<const Range&, std::span<const uint16_t>> LengthView(
      const Range& lengths)
      : narrow_(lengths), size_(static_cast<int64_t>(narrow_.size())) {}

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int32_t operator[](int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return narrow_.empty() ? wide_[at] : int32_t{narrow_[at]};
  }

 private:
  std::span<const int32_t> wide_;
  std::span<const uint16_t> narrow_;
  int64_t size_ = 0;
};

// Lengths as stored, of samples of one sequence or of a source and a target each. Views: what they
// show outlives whoever uses them.
struct SampleLengths {
  LengthView source;       // or the only one
  LengthView target = {};  // empty: samples are single sequences
  int32_t added = 1;       // tokens that packing adds to each sequence: the end of sentence

  int64_t size() const { return source.size(); }
  int64_t SourceTokens(int64_t i) const { return source[i] + added; }
  // 0 for single sequences.
  int64_t TargetTokens(int64_t i) const { return target.empty() ? 0 : target[i] + added; }
  // Tokens that training computes for a sample.
  int64_t Work(int64_t i) const { return SourceTokens(i) + TargetTokens(i); }
};

// What a pair costs of the budget; ends of sentence count. For single sequences all are the same.
enum class BudgetUnit { kTargetTokens, kLongerSide, kBothSides };

struct BatchOptions {
  int64_t tokens_per_batch = 8192;  // of one update over all ranks and micro-batches
  // Where above 0 each update takes so many samples, whatever their lengths, and tokens_per_batch
  // does not count.
  int64_t samples_per_batch = 0;
  BudgetUnit unit = BudgetUnit::kTargetTokens;
  uint64_t seed = 1;
  bool shuffle = true;  // false: in the order of the file
  // Sorts samples by length within stretches of so many before cutting, then shuffles the batches:
  // batches of like length, where a device gains by that. 0: off.
  int64_t length_window = 0;
};

// What the order of an epoch's samples follows from, beside their number and lengths.
struct SampleOrder {
  bool shuffle = true;
  uint64_t seed = 0;  // 0 without shuffle
  int64_t length_window = 0;
  // Of the batches that the windows are cut into, and which are shuffled; without these 0 and
  // kTargetTokens.
  int64_t tokens_per_batch = 0;
  int64_t samples_per_batch = 0;
  BudgetUnit unit = BudgetUnit::kTargetTokens;

  friend bool operator==(const SampleOrder&, const SampleOrder&) = default;
};
// The order of the epochs that begin with these options.
SampleOrder SampleOrderOf(const BatchOptions& options);

// The batches of one epoch. 4 bytes of memory a sample.
class EpochPlan {
 public:
  // A sample that is longer than the budget makes a batch of its own. At most 2^32 - 1 samples.
  EpochPlan(const SampleLengths& lengths, const BatchOptions& options, int64_t epoch)
      : EpochPlan(lengths, options, epoch, SampleOrderOf(options)) {}
  // Of an epoch that was begun in that order: another one than the options' is cut anew by their
  // budget, so that its batches may hold samples of less like length.
  EpochPlan(const SampleLengths& lengths, const BatchOptions& options, int64_t epoch,
            const SampleOrder& order);

  int64_t num_samples() const { return static_cast<int64_t>(order_.size()); }
  int64_t num_batches() const { return static_cast<int64_t>(starts_.size()) - 1; }
  // Position in the epoch of a batch's first sample; that of batch num_batches() is num_samples().
  int64_t start(int64_t batch) const { return starts_[static_cast<size_t>(batch)]; }
  // Samples of a batch, as rows of the lengths.
  std::span<const uint32_t> Batch(int64_t batch) const;
  // From position `cursor` < num_samples() to the end of the batch it lies in: a whole batch,
  // unless the run was resumed with another budget.
  std::span<const uint32_t> BatchFrom(int64_t cursor) const;
  // How many of those there are to the end.
  int64_t NumBatchesFrom(int64_t cursor) const;

 private:
  void ShuffleBatches(const RandomKey& key);

  std::vector<uint32_t> order_;
  std::vector<int64_t> starts_;
};

// Divides samples into `parts` lists of about equal work, longest samples first in each; the same
// everywhere. With fewer samples than parts the last lists are empty.
std::vector<std::vector<uint32_t>> SplitByTokens(std::span<const uint32_t> samples,
                                                 const SampleLengths& lengths, int parts);

// One pass over all samples, longest first, in batches of at most tokens_per_batch tokens of `unit`
// (a sample beyond that alone). The batches are the same for any number of ranks, so what a model
// says about a sample is too, to the last bit with as many threads per rank; whole batches are
// dealt out so that the work is about even. Returns those of `rank`: perhaps none.
std::vector<std::vector<uint32_t>> EvaluationBatches(const SampleLengths& lengths,
                                                     int64_t tokens_per_batch, int rank,
                                                     int num_ranks,
                                                     BudgetUnit unit = BudgetUnit::kBothSides);

}  // namespace dtrain

#endif  // DTRAIN_DATA_BATCHING_H_
