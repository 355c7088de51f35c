// gradient_buckets.cc - cuts, slices and marks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/gradient_buckets.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"

namespace dtrain::internal {

std::vector<int> CutBuckets(std::span<const GradientRange> parameters, const BucketSizes& sizes) {
  std::vector<int> buckets;
  int64_t limit = sizes.first_bytes / static_cast<int64_t>(sizeof(float));
  int64_t begin = 0;  // of the bucket that grows
  for (const GradientRange& range : parameters) {
    const bool full = !buckets.empty() && range.begin > begin && range.end - begin > limit;
    if (full) limit = sizes.bytes / static_cast<int64_t>(sizeof(float));
    if (buckets.empty() || full) begin = range.begin;
    buckets.push_back(buckets.empty() ? 0 : buckets.back() + (full ? 1 : 0));
  }
  return buckets;
}

GradientBuckets::GradientBuckets(std::vector<GradientRange> parameters, int64_t elements,
                                 const BucketSizes& sizes)
    : parameters_(std::move(parameters)),
      elements_(elements),
      scatter_block_(sizes.scatter_block),
      equal_slices_(sizes.equal_slices),
      marked_(parameters_.size(), false) {
  DT_CHECK_GE(scatter_block_, 0);
  int64_t end = 0;
  for (const GradientRange& range : parameters_) {
    DT_CHECK_EQ(range.begin, end) << range.name << " does not begin where the one before ends";
    DT_CHECK_LE(range.begin, range.end) << range.name;
    end = range.end;
  }
  DT_CHECK_EQ(end, elements_) << "the parameters do not cover the flat gradients";
  bucket_of_ = CutBuckets(parameters_, sizes);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (bucket_of_[i] == count()) buckets_.push_back({.begin = parameters_[i].begin});
    Bucket& bucket = buckets_.back();
    ++bucket.parameters;
    ++bucket.missing;
  }
  if (scatter_block_ == 0) return;
  // Elements after the last whole block (of each rank) travel with the next bucket, which starts
  // later.
  const int64_t unit = scatter_block_ * std::max(1, equal_slices_);
  for (size_t i = 1; i < buckets_.size(); ++i) {
    buckets_[i].begin = buckets_[i].begin / unit * unit;
  }
}

std::vector<int64_t> GradientBuckets::SliceOffsets(int bucket, int ranks) const {
  DT_CHECK_GT(scatter_block_, 0);
  const int64_t begin = begin_of(bucket);
  const int64_t elements = begin_of(bucket + 1) - begin;
  std::vector<int64_t> offsets;
  if (equal_slices_ > 0) {
    DT_CHECK_EQ(ranks, equal_slices_);
    const int64_t share = elements / (scatter_block_ * ranks) * scatter_block_;
    for (int64_t r = 0; r < ranks; ++r) offsets.push_back(begin + r * share);
    offsets.push_back(begin + elements);
    return offsets;
  }
  const int64_t blocks = (elements + scatter_block_ - 1) / scatter_block_;
  for (int64_t r = 0; r <= ranks; ++r) {
    offsets.push_back(begin + std::min(elements, blocks * r / ranks * scatter_block_));
  }
  return offsets;
}

bool GradientBuckets::Mark(int index) {
  DT_CHECK(index >= 0 && index < static_cast<int>(parameters_.size()))
      << "parameter " << index << " of " << parameters_.size();
  const auto i = static_cast<size_t>(index);
  DT_CHECK(!marked_[i]) << "the gradient of " << parameters_[i].name
                        << " was marked ready twice in one step";
  marked_[i] = true;
  return --buckets_[static_cast<size_t>(bucket_of_[i])].missing == 0;
}

void GradientBuckets::CheckAllMarked() const {
  constexpr int kNamed = 5;
  std::string names;
  int64_t missing = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (marked_[i]) continue;
    if (++missing <= kNamed) names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  if (missing > kNamed) names += ", ...";
  DT_CHECK_EQ(missing, 0) << "gradients that were not marked ready: " << names;
}

void GradientBuckets::Reset() {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  std::fill(marked_.begin(), marked_.end(), false);
}

}  // namespace dtrain::internal
