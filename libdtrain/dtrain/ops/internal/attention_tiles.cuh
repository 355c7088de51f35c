// attention_tiles.cuh - tiles of 16-bit rows in shared memory, in the layout tensor cores need.
// SPDX-License-Identifier: Apache-2.0
//
// A tile is [rows, kDim] in chunks of 8 elements (16 bytes). Chunk c of row r is stored at chunk c
// ^ f(r) of the row. f is chosen so that one ldmatrix, which reads the same chunk of 8 neighbouring
// rows, uses each of the 32 banks once.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_TILES_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_TILES_CUH_

#include <type_traits>

#include "dtrain/device/cuda/ptx.cuh"
#include "dtrain/ops/internal/attention_kernel.cuh"

namespace dtrain {

inline constexpr int kFlashWarps = 4;
inline constexpr int kFlashThreads = kFlashWarps * kWarpSize;
inline constexpr int kFlashTile = 64;  // streamed rows at a time

// True if the architecture being compiled for has suitable tensor cores and at least 64 KiB of
// shared memory. attention_cuda.cu launches no other kernels.
template <typename T, int kDim>
inline constexpr bool kHasFlash = kTargetCapability >= 80 ||
                                  (kTargetCapability >= 75 && std::is_same_v<T, Float16> &&
                                   kDim <= 64);

// Offset of a chunk in the tile, in elements.
template <int kDim>
__device__ __forceinline__ int TileOffset(int row, int chunk) {
  static_assert(kDim == 32 || kDim % 64 == 0);
  const int moved = kDim == 32 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
  return row * kDim + moved * 8;
}

// Starts copying rows [first, first + kRows) of `from`. Rows from `count` on become zeros.
template <int kDim, int kRows, int kThreads = kFlashThreads, typename T>
__device__ __forceinline__ void StartTile(T* tile, const T* from, int64_t stride, int first,
                                          int count) {
  constexpr int kChunks = kDim / 8;
  constexpr int kStep = kThreads / kChunks;  // distance to the thread's next row
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  const int row = static_cast<int>(threadIdx.x) / kChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const T* source = from + (first + row) * stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    CpAsync16(tile + TileOffset<kDim>(row + i * kStep, chunk), source,
              first + row + i * kStep < count);
    source += kStep * stride;
  }
}

// Loads the left operand of a product: rows [row, row + 16), elements [16 step, 16 step + 16).
template <int kDim, typename T>
__device__ __forceinline__ void LoadLeft(uint32_t (&a)[4], const T* tile, int row, int step) {
  const int lane = LaneIndex();
  LdMatrixX4(a, tile + TileOffset<kDim>(row + lane % 16, 2 * step + lane / 16));
}

// Loads a left operand from a tile that stores it transposed, as [depth, rows]: rows [8 chunk, 8
// chunk + 16), depth [depth, depth + 16).
template <int kDim, typename T>
__device__ __forceinline__ void LoadLeftTransposed(uint32_t (&a)[4], const T* tile, int chunk,
                                                   int depth) {
  const int lane = LaneIndex();
  LdMatrixX4Trans(a,
                  tile + TileOffset<kDim>(depth + lane % 8 + lane / 16 * 8, chunk + lane / 8 % 2));
}

// The right operands of two neighbouring products: two 16 by 8 fragments.
struct RightPair {
  uint32_t low[2], high[2];

  __device__ __forceinline__ void Set(const uint32_t (&r)[4]) {
    low[0] = r[0];
    low[1] = r[1];
    high[0] = r[2];
    high[1] = r[3];
  }
};

// The tile's rows [row, row + 16) become the columns, its elements [16 step, 16 step + 16) the
// depth.
template <int kDim, typename T>
__device__ __forceinline__ RightPair LoadRight(const T* tile, int row, int step) {
  const int lane = LaneIndex();
  uint32_t r[4];
  LdMatrixX4(r, tile + TileOffset<kDim>(row + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
  RightPair pair;
  pair.Set(r);
  return pair;
}

// The tile's rows [row, row + 16) become the depth, its elements [8 chunk, 8 chunk + 16) the
// columns.
template <int kDim, typename T>
__device__ __forceinline__ RightPair LoadRightTransposed(const T* tile, int row, int chunk) {
  const int lane = LaneIndex();
  uint32_t r[4];
  LdMatrixX4Trans(r, tile + TileOffset<kDim>(row + lane % 16, chunk + lane / 16));
  RightPair pair;
  pair.Set(r);
  return pair;
}

// Turns two neighbouring 16 by 8 results into the left operand of the next product, of depth 16.
template <typename T>
__device__ __forceinline__ void ResultsToLeft(uint32_t (&a)[4], const float (&low)[4],
                                              const float (&high)[4]) {
  a[0] = PackPair<T>(low[0], low[1]);
  a[1] = PackPair<T>(low[2], low[3]);
  a[2] = PackPair<T>(high[0], high[1]);
  a[3] = PackPair<T>(high[2], high[3]);
}

template <typename T>
__device__ __forceinline__ void MultiplyPair(float (&low)[4], float (&high)[4],
                                             const uint32_t (&a)[4], const RightPair& right) {
  MatrixMultiply16<T>(low, a, right.low);
  MatrixMultiply16<T>(high, a, right.high);
}

// Row and column of element i of this lane in a 16 by 8 result.
__device__ __forceinline__ int ResultRow(int i) { return LaneIndex() / 4 + i / 2 * 8; }
__device__ __forceinline__ int ResultColumn(int i) { return LaneIndex() % 4 * 2 + i % 2; }

// Writes a left operand of 16 rows by 16 columns into a tile: rows [row, row + 16), chunks `chunk`
// and `chunk` + 1.
template <int kDim, typename T>
__device__ __forceinline__ void StoreLeft(const uint32_t (&a)[4], T* tile, int row, int chunk) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    T* const to = tile + TileOffset<kDim>(row + ResultRow(i % 2 * 2), chunk + i / 2);
    StorePacked(reinterpret_cast<uint32_t*>(to + ResultColumn(0)), Packed<uint32_t, 1>{{a[i]}});
  }
}

// Writes kColumns columns, from chunk `first_chunk` on, of the warp's 16 rows with row < valid.
// Values are multiplied by the factors of this lane's two rows. To write whole chunks, they pass
// through the same place in `staging`, which is 16 rows of a tile.
template <int kDim, int kColumns, typename T>
__device__ __forceinline__ void StoreResults(const float (&sums)[kColumns / 8][4],
                                             const float (&factor)[2], int valid, T* staging, T* to,
                                             int64_t stride, int first_chunk = 0) {
  constexpr int kChunks = kColumns / 8;
#pragma unroll
  for (int n = 0; n < kChunks; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t pair =
          PackPair<T>(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
      T* const target = staging + TileOffset<kDim>(ResultRow(2 * half), first_chunk + n);
      StorePacked(reinterpret_cast<uint32_t*>(target + ResultColumn(0)),
                  Packed<uint32_t, 1>{{pair}});
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * kChunks / kWarpSize; ++i) {
    const int index = LaneIndex() + i * kWarpSize;
    const int row = index / kChunks;
    const int chunk = first_chunk + index % kChunks;
    if (row < valid) {
      StorePacked(to + row * stride + chunk * 8,
                  LoadPacked<8>(staging + TileOffset<kDim>(row, chunk)));
    }
  }
}

// The dropout of 16 by 16 scores of a warp, whose lanes hold elements of rows g and g + 8 and of
// columns 2t, 2t + 1, 2t + 8 and 2t + 9. Marks [w] are those of register w of a left operand
// (ResultsToLeft), so elements 2 w and 2 w + 1 of `kept` are that register's two.
//
// If rows are queries, these are the eight elements of one draw.
struct KeptQueryRows {
  uint32_t row;

  // `first`: the warp's first query, at the start of a block of kDropoutBlock.
  __device__ __forceinline__ void Start(const AttentionArgs& args, const AttentionPlace& at,
                                        int first) {
    row = DropoutRow(args, at, first + LaneIndex() / 4);
  }
  // `first_key`: the first of the 16 columns.
  __device__ __forceinline__ KeptElements Draw(const AttentionArgs& args, int /*first_query*/,
                                               int first_key) const {
    return DrawScores(args, row, first_key, LaneIndex() % 4);
  }
};

// If rows are keys, two lanes hold the elements of two draws between them: keys 2h and 2h + 1 (+ 8)
// of queries 2t and 2t + 1 (+ 8). The lane with the even key makes the draw of query 2t, the other
// one that of query 2t + 1. They exchange the halves that the other one's key has.
struct KeptKeyRows {
  // sm_80 has no register left for the lane's own row, sm_90 none to add to the first query's.
  static constexpr bool kUniform = kTargetCapability < 90;
  uint32_t row;  // of query 0, or of the lane's query of the first 16

  static __device__ __forceinline__ int LaneQuery() {
    return LaneIndex() % 4 * 2 + LaneIndex() / 4 % 2;
  }
  __device__ __forceinline__ void Start(const AttentionArgs& args, const AttentionPlace& at,
                                        int /*first*/) {
    row = kUniform ? MakeUniform(DropoutRow(args, at, 0)) : DropoutRow(args, at, LaneQuery());
  }
  // `first_key`: the warp's first key. `first_query`: the first of the 16 columns.
  __device__ __forceinline__ KeptElements Draw(const AttentionArgs& args, int first_key,
                                               int first_query) const {
    const int query = first_query + (kUniform ? LaneQuery() : 0);
    const auto rows = static_cast<uint32_t>(query * args.num_heads);
    const KeptElements drawn = DrawScores(args, row + rows, first_key, LaneIndex() / 8);
    const bool is_odd = LaneIndex() / 4 % 2 != 0;
    // Low halves are even keys'. Words 0 and 1 are the lower key of both queries, 2 and 3 the
    // upper.
    const uint32_t halves = is_odd ? 0x2222 : 0;
    const uint32_t mine = 0x5410 ^ halves;
    const uint32_t theirs = 0x7632 ^ halves;
    uint32_t own[2], other[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t* const words = drawn.marks + 2 * half;
      own[half] = PermuteBytes(words[0], words[1], mine);
      other[half] = __shfl_xor_sync(kFullWarp, PermuteBytes(words[0], words[1], theirs), 4);
    }
    // The even query's element comes first.
    const uint32_t order = 2 * halves;
    const uint32_t lower = 0x5410 ^ order;
    const uint32_t upper = 0x7632 ^ order;
    KeptElements kept;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      kept.marks[half] = PermuteBytes(own[half], other[half], lower);
      kept.marks[2 + half] = PermuteBytes(own[half], other[half], upper);
    }
    return kept;
  }
};

// Element i of result 2 s or 2 s + 1 (n) among those of the 16 by 16 scores of step s.
__device__ __forceinline__ int KeptIndex(int n, int i) { return 2 * (2 * (n % 2) + i / 2) + i % 2; }

// Zeroes what is dropped of a left operand.
__device__ __forceinline__ void DropLeft(uint32_t (&a)[4], const KeptElements& kept) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] &= PermuteBytes(kept.marks[i], kept.marks[i], 0xbb99);
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_TILES_CUH_
