// batching.h - decides which samples form which update, from lengths, options and epoch alone.
// SPDX-License-Identifier: Apache-2.0
//
//   const EpochPlan plan(lengths, options, epoch);             // the same on every rank
//   std::span<const uint32_t> batch = plan.BatchFrom(cursor);  // samples of one update, all ranks
//   auto parts = SplitByTokens(batch, lengths, ranks * accumulation);  // positions in the batch
//   cursor += batch.size();
//
// Each update uses one global batch, limited by a number of tokens or samples over all ranks. So
// the order of samples and the updates do not depend on the number of ranks. A run only needs to
// remember (epoch, cursor, SampleOrder). Every sample occurs once per epoch, unless samples come
// from sources with weights (source_mix.h). If a run resumes in the middle of an epoch with other
// options, that epoch keeps its order. The last batch of an epoch holds the remaining samples.
//
// Batches are not padded, so their samples need not have similar lengths. By default samples are
// chosen at random, which trains best, and the split among ranks balances the work.
#ifndef DTRAIN_DATA_BATCHING_H_
#define DTRAIN_DATA_BATCHING_H_

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/data/source_mix.h"

namespace dtrain {

// A view of sequence lengths, stored in 32 bits or, for very large data, in 16 bits.
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

// The stored lengths of samples. A sample is one sequence, or a source and a target. The data must
// outlive its users.
struct SampleLengths {
  LengthView source;       // lengths of the source, or of the only sequence
  LengthView target = {};  // empty if samples are single sequences
  int32_t added = 1;       // tokens that packing adds to each sequence (end of sentence)
  // The sources that follow one another in the samples, if epochs mix them by their weights. Empty:
  // every sample occurs once per epoch.
  std::span<const SampleSource> sources = {};

  int64_t size() const { return source.size(); }
  int64_t SourceTokens(int64_t i) const { return source[i] + added; }
  // Returns 0 for single sequences.
  int64_t TargetTokens(int64_t i) const { return target.empty() ? 0 : target[i] + added; }
  // Number of tokens that training computes for a sample.
  int64_t Work(int64_t i) const { return SourceTokens(i) + TargetTokens(i); }
};

// The tokens of a pair that count for the batch size, including ends of sentences. For single
// sequences all three are the same.
enum class BudgetUnit { kTargetTokens, kLongerSide, kBothSides };

struct BatchOptions {
  int64_t tokens_per_batch = 8192;  // per update, over all ranks and micro-batches
  // If positive, each update has this many samples whatever their lengths, and tokens_per_batch is
  // ignored.
  int64_t samples_per_batch = 0;
  BudgetUnit unit = BudgetUnit::kTargetTokens;
  uint64_t seed = 1;
  bool shuffle = true;  // false: in the order of the file
  // If positive, sorts samples by length within windows of this many samples before they are split
  // into batches, then shuffles the batches. Batches then hold samples of similar length, which
  // some devices process faster.
  int64_t length_window = 0;
};

// Everything that determines the order of an epoch's samples, apart from their number and lengths.
struct SampleOrder {
  bool shuffle = true;
  uint64_t seed = 0;  // 0 if not shuffled
  int64_t length_window = 0;
  // The batches that windows are split into before they are shuffled. Without windows these are 0
  // and kTargetTokens.
  int64_t tokens_per_batch = 0;
  int64_t samples_per_batch = 0;
  BudgetUnit unit = BudgetUnit::kTargetTokens;

  friend bool operator==(const SampleOrder&, const SampleOrder&) = default;
};
// The order of epochs that begin with these options.
SampleOrder SampleOrderOf(const BatchOptions& options);

// The batches of one epoch. Needs 4 bytes of memory per sample.
class EpochPlan {
 public:
  // A sample longer than the budget is a batch by itself. At most 2^32 - 1 samples.
  EpochPlan(const SampleLengths& lengths, const BatchOptions& options, int64_t epoch)
      : EpochPlan(lengths, options, epoch, SampleOrderOf(options)) {}
  // Plans an epoch that began with another order. If that differs from the options' order, the
  // batches are split again by the options' budget, so samples in a batch may have less similar
  // lengths.
  EpochPlan(const SampleLengths& lengths, const BatchOptions& options, int64_t epoch,
            const SampleOrder& order);

  int64_t num_samples() const { return static_cast<int64_t>(order_.size()); }
  int64_t num_batches() const { return static_cast<int64_t>(starts_.size()) - 1; }
  // Position of a batch's first sample in the epoch. For num_batches() this is num_samples().
  int64_t start(int64_t batch) const { return starts_[static_cast<size_t>(batch)]; }
  // The samples of a batch, as indices into the lengths.
  std::span<const uint32_t> Batch(int64_t batch) const;
  // The samples from position `cursor` < num_samples() to the end of its batch. This is a whole
  // batch unless the run resumed with another budget.
  std::span<const uint32_t> BatchFrom(int64_t cursor) const;
  // Number of batches from `cursor` to the end of the epoch.
  int64_t NumBatchesFrom(int64_t cursor) const;

 private:
  void ShuffleBatches(uint64_t seed, int64_t epoch);

  std::vector<uint32_t> order_;
  std::vector<int64_t> starts_;
};

// Splits samples into `parts` lists of about equal work, each with its longest samples first. The
// lists hold positions in `samples`, which may hold a sample twice. The result is the same
// everywhere. With fewer samples than parts, the last lists are empty.
std::vector<std::vector<uint32_t>> SplitByTokens(std::span<const uint32_t> samples,
                                                 const SampleLengths& lengths, int parts);

// Plans one pass over all samples for an evaluation, longest first, in batches of at most
// tokens_per_batch tokens of `unit` (a longer sample is a batch by itself). The batches are the
// same for any number of ranks. So the model's output for a sample is the same too, to the last bit
// if ranks have equally many threads. Whole batches are distributed to balance the work. Returns
// the batches of `rank`, which may be none.
std::vector<std::vector<uint32_t>> EvaluationBatches(const SampleLengths& lengths,
                                                     int64_t tokens_per_batch, int rank,
                                                     int num_ranks,
                                                     BudgetUnit unit = BudgetUnit::kBothSides);

}  // namespace dtrain

#endif  // DTRAIN_DATA_BATCHING_H_
