// slice_layout.cc - ranges of pieces and slices.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/slice_layout.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"

namespace dtrain::internal {

SliceLayout::SliceLayout(std::vector<int64_t> offsets, int64_t element_bytes, int64_t slot_bytes,
                         bool whole)
    : offsets_(std::move(offsets)), element_bytes_(element_bytes), whole_(whole) {
  const auto slices = static_cast<int64_t>(offsets_.size()) - 1;
  stride_ = slot_bytes / (whole ? 1 : slices) / 64 * 64;
  piece_elements_ = stride_ / element_bytes_;
  if (whole) {
    DT_CHECK_LE(offsets_.back(), piece_elements_);
    return;
  }
  for (size_t s = 0; s + 1 < offsets_.size(); ++s) {
    const int64_t count = offsets_[s + 1] - offsets_[s];
    DT_CHECK_GE(count, 0);
    pieces_ = std::max(pieces_, (count + piece_elements_ - 1) / piece_elements_);
  }
}

SliceLayout::Range SliceLayout::RangeOf(int slice, int64_t piece) const {
  if (whole_) return {0, static_cast<size_t>(offsets_.back() * element_bytes_)};
  const auto s = static_cast<size_t>(slice);
  const int64_t begin = offsets_[s] + piece * piece_elements_;
  const int64_t count = std::clamp<int64_t>(offsets_[s + 1] - begin, 0, piece_elements_);
  return {begin, static_cast<size_t>(count * element_bytes_)};
}

size_t SliceLayout::BytesOf(int64_t piece) const {
  size_t bytes = 0;
  for (int slice = 0; slice + 1 < static_cast<int>(offsets_.size()); ++slice) {
    bytes += RangeOf(slice, piece).bytes;
  }
  return bytes;
}

int64_t SliceLayout::PiecesOfAtLeast(size_t bytes) const {
  int64_t pieces = 0;
  while (pieces < pieces_ && BytesOf(pieces) >= bytes) ++pieces;
  return pieces;
}

}  // namespace dtrain::internal
