// slice_layout_test.cc - pieces of slices in a slot of shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/slice_layout.h"

#include <cstdint>
#include <vector>

#include "dtrain/base/check.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kSlot = 512;

TEST_CASE("the pieces of uneven slices cover every element once") {
  const std::vector<int64_t> offsets{0, 100, 100, 141};
  const SliceLayout layout(offsets, /*element_bytes=*/4, kSlot, /*whole=*/false);
  // A third of a slot, down to cache lines: 128 bytes, 32 elements.
  CHECK(layout.pieces() == 4);
  std::vector<int> seen(141, 0);
  for (int slice = 0; slice < 3; ++slice) {
    CHECK(layout.SlotOffset(slice) == 128 * slice);
    for (int64_t piece = 0; piece < layout.pieces(); ++piece) {
      const SliceLayout::Range range = layout.RangeOf(slice, piece);
      CHECK(range.bytes <= 128);
      for (size_t i = 0; i < range.bytes / 4; ++i) ++seen[static_cast<size_t>(range.begin) + i];
    }
  }
  CHECK(seen == std::vector<int>(141, 1));
}

TEST_CASE("a layout without data has one empty piece, whose header ranks compare") {
  const SliceLayout layout({0, 0, 0}, 4, kSlot, false);
  CHECK(layout.pieces() == 1);
  CHECK(layout.BytesOf(0) == 0);
}

TEST_CASE("large pieces are the first ones") {
  const SliceLayout layout({0, 160, 170}, 4, kSlot, false);  // 64 elements a slice and piece
  CHECK(layout.pieces() == 3);
  CHECK(layout.BytesOf(0) == 4 * (64 + 10));
  CHECK(layout.PiecesOfAtLeast(256) == 2);
  CHECK(layout.PiecesOfAtLeast(300) == 0);
}

TEST_CASE("a small exchange shows all of the data in one piece, which must fit") {
  const SliceLayout layout({0, 60, 120}, 4, kSlot, /*whole=*/true);
  CHECK(layout.pieces() == 1);
  CHECK(layout.RangeOf(1, 0).bytes == 480);
  CHECK(layout.SlotOffset(1) == 0);
  CHECK_THROWS_AS(SliceLayout({0, 60, 129}, 4, kSlot, true), CheckError);
}

}  // namespace
}  // namespace dtrain::internal
