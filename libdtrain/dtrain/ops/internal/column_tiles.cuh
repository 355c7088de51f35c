// column_tiles.cuh - the thread layout of kernels that process columns, and their column sums.
// SPDX-License-Identifier: Apache-2.0
//
// A block of 256 threads processes a tile of 32 pieces of columns and a range of rows. Thread (x,
// y) with x = threadIdx.x % 32 handles the columns of piece x in every eighth row from row y on. So
// a warp reads 512 neighbouring bytes of a 16-bit row, each thread loads its bias once, and column
// sums stay in registers. The sums of blocks go to scratch memory and FinishColumnSums adds them in
// order, so results depend on the shape only.
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
// Number of blocks that must fit on a multiprocessor: 24 warps with two or four loads each keep its
// memory busy.
inline constexpr int kTileBlocks = 3;
// Number of rows a thread loads before it uses the first.
inline constexpr int kTileBatch = 2;

struct ColumnTiles {
  // For kernels whose blocks walk through the rows together (WalkRows), `batch` rows of a thread a
  // turn: as many blocks as an H200 holds at once, `resident` on a multiprocessor, all with the
  // same number of turns.
  static ColumnTiles Resident(int64_t rows, int64_t columns, int width, int resident, int batch) {
    ColumnTiles walk(0, columns, width);
    const int64_t most =
        std::max<int64_t>(1, int64_t{132} * resident / std::max<int64_t>(1, walk.tiles));
    const int64_t turn_rows = int64_t{batch} * kTileRows;
    if (rows > 0) {
      walk.row_blocks = CeilDivide(rows, CeilDivide(rows, most * turn_rows) * turn_rows);
    }
    return walk;
  }
  ColumnTiles(int64_t rows, int64_t columns, int width)
      : tiles(CeilDivide(columns, kTileLanes * width)) {
    // Eight blocks for each multiprocessor of an H200. Fixed, so that sums are the same on every
    // GPU.
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

// Arguments of such a kernel. partials: [row blocks, sums, columns], or null if sums are not
// wanted.
template <typename Args>
struct TiledArgs {
  Args args;
  int64_t rows_per_block = 0;
  float* partials = nullptr;
};

// This thread's columns [column, column + kWidth), and its rows begin, begin + kTileRows, ... below
// end.
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
  // This thread's part of a vector over the columns. Null if the vector is absent or the thread has
  // no columns.
  template <typename T>
  __device__ __forceinline__ const T* OfVector(const void* vector) const {
    return inside && vector != nullptr ? static_cast<const T*>(vector) + column : nullptr;
  }
  int64_t column, begin, end;
  bool inside;
};

// This thread's columns, as TilePlace, and its rows when all blocks walk through the rows together:
// last, last - step, ... down to 0, or none if last is negative. The op before has often written
// the last rows last, so these are still in the L2 cache.
template <int kWidth>
struct WalkRows {
  __device__ __forceinline__ WalkRows(int64_t rows, int64_t columns)
      : column((static_cast<int>(blockIdx.x) * kTileLanes +
                static_cast<int>(threadIdx.x) % kTileLanes) *
               kWidth),
        last(static_cast<int>(rows) - 1 - static_cast<int>(blockIdx.y) * kTileRows -
             static_cast<int>(threadIdx.x) / kTileLanes),
        step(static_cast<int>(gridDim.y) * kTileRows) {
    if (column >= static_cast<int>(columns)) last = -1;
  }
  // This thread's part of a vector over the columns, null if it has no rows.
  template <typename T>
  __device__ __forceinline__ const T* OfVector(const void* vector) const {
    return last >= 0 && vector != nullptr ? static_cast<const T*>(vector) + column : nullptr;
  }
  // Loads the pieces of rows r, r - step, ...; zeros above the first row.
  template <typename T, int kRows>
  __device__ __forceinline__ void Load(const Rows& matrix, int r,
                                       Piece<T, kWidth> (&rows)[kRows]) const {
#pragma unroll
    for (int b = 0; b < kRows; ++b) {
      const int row = r - b * step;
      rows[b] = LoadOptionalPiece<kWidth>(row >= 0 ? ColumnsAt<T>(matrix, row, column) : nullptr);
    }
  }
  int column;
  int last, step;
};

// Adds the sums of the block's threads and stores them in the block's row of `partials`. All
// threads of the block take part.
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
    __syncthreads();  // other threads may still read the previous sums
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

// sums[s][c] += partials[0][s][c] + partials[1][s][c] + ... for s < count. A null sum is left out.
struct FinishColumnSumsArgs {
  static constexpr int kMaxSums = 3;
  const float* partials = nullptr;
  int64_t blocks = 0;
  int64_t stride = 0;  // elements from one block's partials to the next
  int64_t columns = 0;
  int count = 1;
  float* sums[kMaxSums] = {};
};
void FinishColumnSums(const FinishColumnSumsArgs& args, Stream& stream);  // in reduce_cuda.cu

// Describes the sums of a tile kernel, in their order. Only the last one may be null, if it is not
// wanted.
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

// Scratch memory for the tiles' sums; `op` names the op in error messages.
inline float* TileScratch(const ColumnTiles& tiles, int sums, int64_t columns, std::string_view op,
                          Stream& stream) {
  return reinterpret_cast<float*>(
      stream.Scratch(static_cast<size_t>(tiles.row_blocks * sums * columns) * sizeof(float), op));
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_COLUMN_TILES_CUH_
