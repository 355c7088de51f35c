// batch_walk.cc - plans each epoch when it begins, and splits its batches one by one.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/batch_walk.h"

#include <limits>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

// The samples of an update, with the number of each one's first token within the update.
class NumberedSamples {
 public:
  // Both must outlive this.
  NumberedSamples(std::span<const uint32_t> samples, const SampleLengths& lengths)
      : samples_(samples), has_targets_(!lengths.target.empty()) {
    constexpr int64_t kLast = std::numeric_limits<int32_t>::max();
    first_.reserve(samples.size());
    int64_t source = 0;
    int64_t target = 0;
    for (const uint32_t sample : samples) {
      // In an update of more than 2^31 tokens some tokens share a number, which is harmless.
      first_.push_back(
          {static_cast<int32_t>(source & kLast), static_cast<int32_t>(target & kLast)});
      source += lengths.SourceTokens(sample);
      target += lengths.TargetTokens(sample);
    }
  }

  // The samples at some positions.
  BatchPart At(std::span<const uint32_t> positions) const {
    BatchPart part;
    for (const uint32_t position : positions) {
      part.samples.push_back(samples_[position]);
      part.source_numbers.push_back(first_[position].source);
      if (has_targets_) part.target_numbers.push_back(first_[position].target);
    }
    return part;
  }

 private:
  struct First {
    int32_t source = 0;
    int32_t target = 0;
  };
  std::span<const uint32_t> samples_;
  bool has_targets_;
  std::vector<First> first_;
};

}  // namespace

BatchWalk::BatchWalk(const SampleLengths& lengths, const BatchOptions& options,
                     const RankShare& share, const DataPosition& start)
    : lengths_(lengths), options_(options), share_(share), cursor_(start) {
  DT_CHECK_GT(share.num_ranks, 0);
  DT_CHECK(share.rank >= 0 && share.rank < share.num_ranks) << share.rank;
  DT_CHECK_GT(share.accumulation, 0);
  DT_CHECK(start.epoch >= 0 && start.sample >= 0 && start.sample < lengths.size())
      << "epoch " << start.epoch << " sample " << start.sample;
}

BatchShare BatchWalk::Next() {
  if (!plan_ || plan_epoch_ != cursor_.epoch) {
    if (!cursor_.order) cursor_.order = SampleOrderOf(options_);
    plan_.emplace(lengths_, options_, cursor_.epoch, *cursor_.order);
    plan_epoch_ = cursor_.epoch;
  }
  BatchShare batch;
  batch.samples = plan_->BatchFrom(cursor_.sample);
  // Part p is micro-batch p / ranks of rank p % ranks. So a small last batch is spread over the
  // ranks.
  const auto parts = SplitByTokens(batch.samples, lengths_, share_.num_ranks * share_.accumulation);
  const NumberedSamples samples(batch.samples, lengths_);
  for (int micro = 0; micro < share_.accumulation; ++micro) {
    const int part = micro * share_.num_ranks + share_.rank;
    batch.parts.push_back(samples.At(parts[static_cast<size_t>(part)]));
  }
  cursor_.sample += static_cast<int64_t>(batch.samples.size());
  if (cursor_.sample == plan_->num_samples()) cursor_ = {.epoch = cursor_.epoch + 1};
  batch.next = cursor_;
  return batch;
}

int64_t CountUpdates(const SampleLengths& lengths, const BatchOptions& options,
                     const DataPosition& start, int64_t epochs) {
  const int64_t each = options.samples_per_batch;
  const bool is_even = each > 0 && options.length_window == 0;
  if (is_even) {
    if (start.epoch >= epochs) return 0;
    const int64_t of_epoch = lengths.size() / each + (lengths.size() % each > 0 ? 1 : 0);
    return (epochs - start.epoch) * of_epoch - start.sample / each;
  }
  int64_t updates = 0;
  for (DataPosition at = start; at.epoch < epochs; at = {.epoch = at.epoch + 1}) {
    const SampleOrder order = at.order.value_or(SampleOrderOf(options));
    updates += EpochPlan(lengths, options, at.epoch, order).NumBatchesFrom(at.sample);
  }
  return updates;
}

Status CheckWalk(std::string_view path, std::string_view samples_name, int64_t num_samples,
                 const RankShare& share, const DataPosition& start) {
  if (num_samples < share.num_ranks) {
    return DataError(
        absl::StrFormat("%s: %d %s for %d ranks; start fewer ranks or prepare more data",
                        ToAbsl(path), num_samples, ToAbsl(samples_name), share.num_ranks));
  }
  if (start.epoch < 0 || start.sample < 0 || start.sample >= num_samples) {
    return DataError(absl::StrFormat(
        "%s: cannot continue at sample %d of epoch %d: there are only %d %s; was the data prepared "
        "again since the checkpoint?",
        ToAbsl(path), start.sample, start.epoch, num_samples, ToAbsl(samples_name)));
  }
  return OkStatus();
}

}  // namespace dtrain
