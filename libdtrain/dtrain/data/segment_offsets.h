// segment_offsets.h - finds the first token of a segment, from the lengths and a few sums.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_SEGMENT_OFFSETS_H_
#define DTRAIN_DATA_SEGMENT_OFFSETS_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace dtrain {

// Returns the sum of all lengths before a segment. Storing every sum would take four times the
// memory of the lengths; adding from the document's start each time would be quadratic in its
// length. So a sum is stored for every kStride-th segment, and fewer than kStride lengths are added
// to it.
class SegmentOffsets {
 public:
  static constexpr size_t kStride = 256;

  // `lengths` are in tokens and must outlive this object.
  explicit SegmentOffsets(std::span<const uint16_t> lengths) : lengths_(lengths) {
    sums_.reserve(lengths.size() / kStride + 1);
    int64_t sum = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (i % kStride == 0) sums_.push_back(sum);
      sum += lengths[i];
    }
  }

  // Number of tokens before segment `i`, which must exist.
  int64_t Before(size_t i) const {
    const std::span<const uint16_t> rest = lengths_.subspan(i / kStride * kStride, i % kStride);
    return std::accumulate(rest.begin(), rest.end(), sums_[i / kStride]);
  }

 private:
  std::span<const uint16_t> lengths_;
  std::vector<int64_t> sums_;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_SEGMENT_OFFSETS_H_
