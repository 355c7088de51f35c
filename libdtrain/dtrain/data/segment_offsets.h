// segment_offsets.h - finds where a segment's tokens begin, from lengths and a few sums of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_SEGMENT_OFFSETS_H_
#define DTRAIN_DATA_SEGMENT_OFFSETS_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace dtrain {

// The sum of all lengths before a segment. Sums of all would be four times what the lengths take;
// adding up a document's whole start for each question would be quadratic in its length. So there
// is a sum every kStride segments, and fewer than that many lengths are added to it.
class SegmentOffsets {
 public:
  static constexpr size_t kStride = 256;

  // Of `lengths` in tokens, which outlive this.
  explicit SegmentOffsets(std::span<const uint16_t> lengths) : lengths_(lengths) {
    sums_.reserve(lengths.size() / kStride + 1);
    int64_t sum = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (i % kStride == 0) sums_.push_back(sum);
      sum += lengths[i];
    }
  }

  // Tokens before segment `i`, which there is.
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
