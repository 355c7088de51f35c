// column_tiles.cuh - the geometry of kernels that walk down columns, and their column sums.
// SPDX-License-Identifier: Apache-2.0
//
// A block of 256 threads has a tile of 32 pieces of columns and a stretch of rows. Thread (x, y),
// x = threadIdx.x % 32, owns the columns of piece x and every eighth row from the y-th on: a warp
// reads 512 neighbouring bytes of a 16-bit row, a bias is loaded once per thread, and column sums
// grow in registers. Sums of blocks go to scratch memory and FinishColumnSums adds them in order,
// so that they depend on the shape alone.
#ifndef DTRAIN_OPS_INTERNAL_COLUMN_TILES_CUH_
#define DTRAIN_OPS_INTERNAL_COLUMN_TILES_CUH_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/ops/internal/row_pieces.cuh"

namespace dtrain {

inline constexpr int kTileLanes = 32;
inline constexpr int kTileRows = 8;
inline constexpr int kTileThreads = kTileLanes * kTileRows;
// Blocks that must fit a multiprocessor: 24 warps with two or four loads each keep its memory busy.
inline constexpr int kTileBlocks = 3;
// Rows a thread loads before it uses the first.
inline constexpr int kTileBatch = 2;

struct ColumnTiles {
  ColumnTiles(int64_t rows, int64_t columns, int width)
      : tiles(CeilDivide(columns, kTileLanes * width)) {
    // Eight blocks for each of an H200's multiprocessors; fixed, so that sums are the same on any.
    constexpr int64_t kBlocks = 8 * 132;
    const int64_t wanted = std::max<int64_t>(1, kBlocks / std::max<int64_t>(1, tiles));
    rows_per_block = CeilDivide(CeilDivide(rows, wanted), kTileRows) * kTileRows;
    row_blocks = rows == 0 ? 0 : CeilDivide(rows, rows_per_block);
  }

  LaunchShape Shape() const {
    return {.blocks = {tiles, row_blocks}, .threads = kTileThreads, .shared_bytes = 0};
  }

  int64_t tiles;
  int64_t rows_per_block = 0, row_blocks = 0;
};

// What such a kernel takes. partials: [row blocks, sums, columns]; null: no sums wanted.
template <typename Args>
struct TiledArgs {
  Args args;
  int64_t rows_per_block = 0;
  float* partials = nullptr;
};

// This thread's columns [column, column + kWidth) and rows begin, begin + kTileRows, ... below end.
template <int kWidth>
struct TilePlace {
  __device__ __forceinline__ TilePlace(int64_t rows, int64_t columns, int64_t rows_per_block)
      : column((int64_t{blockIdx.x} * kTileLanes + threadIdx.x % kTileLanes) * kWidth) {
    const int64_t first = int64_t{blockIdx.y} * rows_per_block;
    begin = first + threadIdx.x / kTileLanes;
    end = first + rows_per_block < rows ? first + rows_per_block : rows;
    inside = column < columns;
    if (!inside) end = begin;
  }
  // This thread's part of a vector over the columns; null where either is absent.
  template <typename T>
  __device__ __forceinline__ const T* OfVector(const void* vector) const {
    return inside && vector != nullptr ? static_cast<const T*>(vector) + column : nullptr;
  }
  int64_t column, begin, end;
  bool inside;
};

// Adds up what the block's threads hold for their columns and stores it in the block's row of
// `partials`. All threads of the block take part.
template <int kSums, int kWidth>
__device__ __forceinline__ void StoreTileSums(const float (&sums)[kSums][kWidth], int64_t columns,
                                              float* partials) {
  struct Storage {
    float of_row[kTileRows][kTileLanes * kWidth];
  };
  Storage& storage = SharedStorage<Storage>();
  const int x = static_cast<int>(threadIdx.x) % kTileLanes;
  const int y = static_cast<int>(threadIdx.x) / kTileLanes;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t column = int64_t{blockIdx.x} * kTileLanes * kWidth + thread;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    __syncthreads();  // the sums before may still be read
#pragma unroll
    for (int i = 0; i < kWidth; ++i) storage.of_row[y][x * kWidth + i] = sums[s][i];
    __syncthreads();
    if (thread < kTileLanes * kWidth && column < columns) {
      float sum = 0.0f;
#pragma unroll
      for (int row = 0; row < kTileRows; ++row) sum += storage.of_row[row][thread];
      partials[(int64_t{blockIdx.y} * kSums + s) * columns + column] = sum;
    }
  }
}

// sums[s][c] += partials[0][s][c] + partials[1][s][c] + ... for s < count.
struct FinishColumnSumsArgs {
  static constexpr int kMaxSums = 3;
  const float* partials = nullptr;
  int64_t blocks = 0;
  int64_t stride = 0;  // elements from one block's partials to the next
  int64_t columns = 0;
  int count = 1;
  float* sums[kMaxSums] = {};
};
void FinishColumnSums(const FinishColumnSumsArgs& args, Stream& stream);  // reduce_cuda.cu

// The sums of the tiles' kernels, in their order; only the last may be null: not wanted.
inline FinishColumnSumsArgs TileSums(const ColumnTiles& tiles, const float* partials,
                                     int64_t columns, std::initializer_list<float*> sums) {
  FinishColumnSumsArgs args = {.partials = partials,
                               .blocks = tiles.row_blocks,
                               .stride = static_cast<int64_t>(sums.size()) * columns,
                               .columns = columns,
                               .count = 0};
  for (float* const sum : sums) {
    if (sum != nullptr) args.sums[args.count++] = sum;
  }
  return args;
}

// Room for the tiles' sums, of the op of that name.
inline float* TileScratch(const ColumnTiles& tiles, int sums, int64_t columns, std::string_view op,
                          Stream& stream) {
  return reinterpret_cast<float*>(
      stream.Scratch(static_cast<size_t>(tiles.row_blocks * sums * columns) * sizeof(float), op));
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_COLUMN_TILES_CUH_
