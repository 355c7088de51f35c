// tile_gemm.cc - splits matrix products into pieces that fit a core's caches, for AMX and NEON.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/tile_gemm.h"

#include <algorithm>
#include <cstddef>

#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/internal/thread_scratch.h"
#include "dtrain/ops/internal/tile_panels.h"

namespace dtrain {

namespace {

constexpr int64_t kMostRows = 512;
// Number of rows whose sums are kept as float32 until the next part.
constexpr int64_t kWaitingRows = 256;

constexpr int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The number of rows (or columns) whose panels hold `elements` at the given depth: a multiple of
// kPanelSides, at least one panel.
constexpr int64_t SidesOf(int64_t elements, int64_t depth) {
  return std::max(kPanelSides, elements / depth / kPanelSides * kPanelSides);
}

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  // The part from `first` on, of at most `most`.
  Range Piece(int64_t first, int64_t most) const { return {first, std::min(first + most, end)}; }
};

// The number of rows, columns and summed elements of a product that are processed at once.
struct Plan {
  Plan(const GemmArgs& args, DType operands)
      : type(operands),
        depth(args.k <= kTilePanelSizes.whole_depth ? RoundUp(args.k, kStepDepth)
                                                    : kTilePanelSizes.depth_part),
        rows(
            std::min(kMostRows, SidesOf(kTilePanelSizes.left_elements, PackedParts(type) * depth))),
        columns(SidesOf(kTilePanelSizes.right_elements, PackedParts(type) * depth)),
        waits(args.k > depth && args.c_type == DType::kBFloat16) {}

  DType type;
  int64_t depth, rows, columns;
  bool waits;  // sums wait for the next part as float32 in scratch memory, because c would round
               // them
};

void* ElementAt(const void* base, int64_t offset, DType type) {
  return static_cast<std::byte*>(const_cast<void*>(base)) +
         offset * static_cast<int64_t>(SizeOf(type));
}

// Copies a range of a's rows or b's columns, and a range of the summed dimension, into this
// thread's panels.
const BFloat16* Pack(const void* matrix, DType type, int64_t stride, bool depth_major, bool right,
                     Range sides, Range depth, size_t slot) {
  const int64_t elements = RoundUp(sides.size(), kPanelSides) * RoundUp(depth.size(), kStepDepth);
  auto* const to = ThreadScratch<BFloat16>(slot, PackedParts(type) * elements);
  const int64_t first =
      depth_major ? depth.begin * stride + sides.begin : sides.begin * stride + depth.begin;
  PackPanels({ElementAt(matrix, first, type), type, stride, depth_major, right, sides.size(),
              depth.size(), to});
  return to;
}

// True if AMX can load the rows of `a` in place: contiguous and aligned to cache lines.
bool IsPanels(const GemmArgs& args, DType type, Range rows, Range depth) {
  return kTilePanelSizes.loads_rows && type == DType::kBFloat16 && !args.transpose_a &&
         args.a_stride == args.k && depth.size() == args.k && depth.size() % kStepDepth == 0 &&
         rows.size() % kPanelSides == 0 && reinterpret_cast<uintptr_t>(args.a) % 64 == 0;
}

// Sets where a part's sums are written, and what is added to them.
void SetTarget(const GemmArgs& args, const Plan& plan, Range rows, Range columns, Range depth,
               float* waiting, TileGemmArgs& tiles) {
  const bool is_first = depth.begin == 0;
  const bool is_last = depth.end == args.k;
  if (plan.waits && !is_last) {
    tiles.c = waiting;
    tiles.c_stride = columns.size();
    tiles.c_type = DType::kFloat32;
    tiles.accumulate = !is_first;
    return;
  }
  tiles.c = ElementAt(args.c, rows.begin * args.c_stride + columns.begin, args.c_type);
  tiles.c_stride = args.c_stride;
  tiles.c_type = args.c_type;
  tiles.accumulate = args.accumulate || (!plan.waits && !is_first);
  if (args.bias != nullptr && is_last) {
    tiles.bias = ElementAt(args.bias, columns.begin, args.c_type);
  }
  if (plan.waits) {
    tiles.sums = waiting;
    tiles.sums_stride = columns.size();
  }
}

// Computes c[rows, columns] over the whole summed dimension.
void MultiplyBlock(const GemmArgs& args, const Plan& plan, Range rows, Range columns) {
  float* const waiting =
      plan.waits ? ThreadScratch<float>(2, rows.size() * columns.size()) : nullptr;
  for (int64_t first = 0; first < args.k; first += plan.depth) {
    const Range depth = Range{0, args.k}.Piece(first, plan.depth);
    const BFloat16* const b = Pack(args.b, plan.type, args.b_stride, !args.transpose_b,
                                   /*right=*/true, columns, depth, 1);
    for (int64_t row = rows.begin; row < rows.end; row += plan.rows) {
      const Range here = rows.Piece(row, plan.rows);
      TileGemmArgs tiles = {};
      if (IsPanels(args, plan.type, here, depth)) {
        tiles.a = static_cast<const BFloat16*>(args.a) + here.begin * args.a_stride + depth.begin;
        tiles.a_stride = args.a_stride;
      } else {
        tiles.a = Pack(args.a, plan.type, args.a_stride, args.transpose_a, /*right=*/false, here,
                       depth, 0);
      }
      tiles.b = b;
      tiles.parts = PackedParts(plan.type);
      tiles.steps = RoundUp(depth.size(), kStepDepth) / kStepDepth;
      tiles.rows = here.size();
      tiles.columns = columns.size();
      float* const sums = plan.waits ? waiting + (row - rows.begin) * columns.size() : nullptr;
      SetTarget(args, plan, here, columns, depth, sums, tiles);
      MultiplyPanels(tiles);
    }
  }
}

}  // namespace

bool GainsByTiles(const GemmArgs& args) {
  return HasTilePanels() && args.m >= kTilePanelSizes.fewest_rows &&
         args.n >= kTilePanelSizes.fewest_columns && args.k >= kTilePanelSizes.fewest_summed;
}

void GemmByTiles(const GemmArgs& args, DType type) {
  const Plan plan(args, type);
  // Threads split c's longer side. Each thread packs the whole operand of the other side.
  const bool by_rows = args.m >= args.n;
  const int64_t side = by_rows ? args.m : args.n;
  ParallelFor(RoundUp(side, kPanelSides) / kPanelSides, 1, [&](int64_t begin, int64_t end) {
    const Range mine = {begin * kPanelSides, std::min(end * kPanelSides, side)};
    const Range rows = by_rows ? mine : Range{0, args.m};
    const Range columns = by_rows ? Range{0, args.n} : mine;
    const int64_t rows_at_once = plan.waits ? kWaitingRows : rows.size();
    for (int64_t row = rows.begin; row < rows.end; row += rows_at_once) {
      for (int64_t column = columns.begin; column < columns.end; column += plan.columns) {
        MultiplyBlock(args, plan, rows.Piece(row, rows_at_once),
                      columns.Piece(column, plan.columns));
      }
    }
  });
}

}  // namespace dtrain
