// slice_layout.h - how the slices of a collective are cut into pieces that fit a slot.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SLICE_LAYOUT_H_
#define DTRAIN_COMM_INTERNAL_SLICE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain::internal {

// A slot holds one piece: a part of every slice, one after another from cache line to cache line.
class SliceLayout {
 public:
  // A part of the data.
  struct Range {
    int64_t begin = 0;  // element
    size_t bytes = 0;
  };

  // Slice s holds elements [offsets[s], offsets[s + 1]). whole: every rank shows all of the data in
  // one piece, which must fit.
  SliceLayout(std::vector<int64_t> offsets, int64_t element_bytes, int64_t slot_bytes, bool whole);

  // At least one, also if there is nothing to exchange.
  int64_t pieces() const { return pieces_; }
  int64_t element_bytes() const { return element_bytes_; }
  // The part of slice `slice` in `piece`.
  Range RangeOf(int slice, int64_t piece) const;
  // The first byte of the slice in a slot.
  int64_t SlotOffset(int slice) const { return whole_ ? 0 : slice * stride_; }
  // The bytes of a piece, all slices together. Later pieces are not larger.
  size_t BytesOf(int64_t piece) const;
  // The number of pieces with at least `bytes`: the first ones.
  int64_t PiecesOfAtLeast(size_t bytes) const;

 private:
  std::vector<int64_t> offsets_;
  int64_t element_bytes_;
  bool whole_;
  int64_t stride_;  // bytes from one slice to the next in a slot
  int64_t piece_elements_;
  int64_t pieces_ = 1;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SLICE_LAYOUT_H_
