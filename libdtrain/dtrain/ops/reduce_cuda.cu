// reduce_cuda.cu - sums on the GPU: partial sums per block, then one kernel that adds them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/column_tiles.cuh"
#include "dtrain/ops/internal/reduce_kernel.h"

namespace dtrain {
namespace {

// sums[c] = sum over r of x[r, c]. Geometry: column_tiles.cuh. Traffic: x once. Fast because:
// 16-byte loads, two rows per thread in flight.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    ColumnSumsTileKernel(TiledArgs<ColumnSumsArgs> params) {
  const ColumnSumsArgs& args = params.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  float sums[1][kWidth] = {};
  for (int64_t r = at.begin; r < at.end; r += kTileBatch * kTileRows) {
    Piece<T, kWidth> x[kTileBatch];
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      x[b] = LoadOptionalPiece<kWidth>(row < at.end ? RowAt<T>(args.x, row, at.column) : nullptr);
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[0][i] += x[b][i];
    }
  }
  StoreTileSums<1>(sums, args.columns, params.partials);
}

// sums[s][c] += sum over b of partials[b][s][c]. In block (i, s), lane x handles column 32 i + x,
// and row y of the block the partials y, y + 32, ...; the rows' sums are then added in order of y.
// Traffic: the partials, which are mostly still in the L2 cache. Time: that of a launch and of a
//   thread's loads after each other, so it has kFinishBatch of them in flight. Layer norm's 500 to
//   700 partials take two turns.
constexpr int kFinishRows = 32;
constexpr int kFinishBatch = 12;
__global__ void __launch_bounds__(kFinishRows* kTileLanes)
    FinishColumnSumsKernel(FinishColumnSumsArgs args) {
  struct Storage {
    float of_row[kFinishRows][kTileLanes];
  };
  Storage& storage = SharedStorage<Storage>();
  const int x = static_cast<int>(threadIdx.x) % kTileLanes;
  const int y = static_cast<int>(threadIdx.x) / kTileLanes;
  const int64_t column = int64_t{blockIdx.x} * kTileLanes + x;
  float* sums = args.sums[0];
  if (blockIdx.y == 1) sums = args.sums[1];
  if (blockIdx.y == 2) sums = args.sums[2];
  const bool is_wanted = sums != nullptr && column < args.columns;
  float sum = 0.0f;
  if (is_wanted) {
    const float* const partials = args.partials + blockIdx.y * args.columns + column;
    for (int64_t b = y; b < args.blocks; b += kFinishRows * kFinishBatch) {
      float values[kFinishBatch];
#pragma unroll
      for (int i = 0; i < kFinishBatch; ++i) {
        const int64_t at = b + i * kFinishRows;
        values[i] = at < args.blocks ? partials[at * args.stride] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kFinishBatch; ++i) sum += values[i];
    }
  }
  storage.of_row[y][x] = sum;
  __syncthreads();
  if (y == 0 && is_wanted) {
    float total = 0.0f;
#pragma unroll
    for (int row = 0; row < kFinishRows; ++row) total += storage.of_row[row][x];
    sums[column] += total;
  }
}

constexpr int kSumThreads = 256;

// A matrix whose rows may be strided (a contiguous tensor is one row). The grid has x blocks over
// the columns and y blocks over the rows.
struct SumBlocksArgs {
  Rows x{};
  int64_t rows = 0, columns = 0;
  double* partials = nullptr;  // [blocks, kValues]
};

struct JustSum {
  static constexpr int kValues = 1;
  __device__ __forceinline__ static void Add(float value, double (&sums)[1]) {
    sums[0] += static_cast<double>(value);
  }
};
struct SquaresAndBroken {
  static constexpr int kValues = 2;
  __device__ __forceinline__ static void Add(float value, double (&sums)[2]) {
    const double wide = static_cast<double>(value);
    sums[0] += wide * wide;
    // An exponent of all ones means NaN or infinity.
    if ((__float_as_uint(value) & 0x7f800000u) == 0x7f800000u) sums[1] += 1.0;
  }
};

// partials[block] = sum of What over the block's pieces. Traffic: x once.
// Fast because: 32 bytes of float32 per thread and turn. On GPUs with many double-precision units
//   the conversions and double additions overlap with the loads; on others they cost about as much
//   as the loads.
template <typename T, int kWidth, typename What>
__global__ void __launch_bounds__(kSumThreads) SumBlocksKernel(SumBlocksArgs args) {
  double sums[What::kValues] = {};
  const int64_t step = int64_t{gridDim.x} * kSumThreads * kWidth;
  for (int64_t r = blockIdx.y; r < args.rows; r += gridDim.y) {
    int64_t c = (int64_t{blockIdx.x} * kSumThreads + threadIdx.x) * kWidth;
    for (; c + kWidth <= args.columns; c += step) {
      const auto x = LoadPiece<kWidth>(RowAt<T>(args.x, r, c));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) What::Add(x[i], sums);
    }
    // The last columns, if they do not fill a piece.
    for (; c < args.columns; ++c) What::Add(ToFloat(*RowAt<T>(args.x, r, c)), sums);
  }
  const int64_t block = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
#pragma unroll
  for (int v = 0; v < What::kValues; ++v) {
    const double sum = BlockSum(sums[v]);
    if (threadIdx.x == 0) args.partials[block * What::kValues + v] = sum;
  }
}

struct FinishSumArgs {
  const double* partials = nullptr;  // [count, values]
  int64_t count = 0;
  int values = 1;
  double* as_double = nullptr;  // exactly one of the two is null
  float* as_float = nullptr;
  bool accumulate = false;  // add to *as_double instead of overwriting it
};

// totals[v] = sum over i of partials[i][v], plus the old totals[v] with `accumulate`. One block.
__global__ void __launch_bounds__(kSumThreads) FinishSumKernel(FinishSumArgs args) {
  for (int v = 0; v < args.values; ++v) {
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < args.count; i += kSumThreads) {
      sum += args.partials[i * args.values + v];
    }
    sum = BlockSum(sum);
    if (threadIdx.x == 0) {
      if (args.as_double != nullptr) {
        args.as_double[v] = args.accumulate ? args.as_double[v] + sum : sum;
      }
      if (args.as_float != nullptr) args.as_float[v] = static_cast<float>(sum);
    }
  }
}

template <typename T, typename What>
void SumEverything(const SumRowsArgs& args, Stream& stream) {
  constexpr int64_t kMaxBlocks = 8 * 132;  // as in column_tiles.cuh
  // The last piece of a row may be short, so only the starts of the rows must be aligned.
  const bool in_pieces = InPieces<T>(kPieceWidth, {args.x});
  const int width = in_pieces ? kPieceWidth : 1;
  const int64_t across = std::clamp<int64_t>(
      CeilDivide(args.columns, int64_t{4} * kSumThreads * width), 1, kMaxBlocks);
  const int64_t down = std::min(args.rows, std::max<int64_t>(1, kMaxBlocks / across));
  const int64_t blocks = args.columns == 0 ? 0 : across * down;
  double* const partials = reinterpret_cast<double*>(stream.Scratch(
      static_cast<size_t>(std::max<int64_t>(1, blocks)) * What::kValues * sizeof(double), "sum"));
  const SumBlocksArgs params = {
      .x = args.x, .rows = args.rows, .columns = args.columns, .partials = partials};
  if (blocks > 0) {
    WithWidth(in_pieces, [&](auto width_constant) {
      Launch(SumBlocksKernel<T, width_constant.value, What>,
             {.blocks = {across, down}, .threads = kSumThreads}, params, stream);
    });
  }
  Launch(FinishSumKernel, {.blocks = {1}, .threads = kSumThreads},
         FinishSumArgs{.partials = partials,
                       .count = blocks,
                       .values = What::kValues,
                       .as_double = args.as_double,
                       .as_float = args.as_float,
                       .accumulate = args.accumulate},
         stream);
}

}  // namespace

void FinishColumnSums(const FinishColumnSumsArgs& args, Stream& stream) {
  Launch(FinishColumnSumsKernel,
         {.blocks = {CeilDivide(args.columns, kTileLanes), args.count},
          .threads = kFinishRows * kTileLanes},
         args, stream);
}

template <typename T>
void ColumnSumsKernelCuda(const ColumnSumsArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.x});
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  const TiledArgs<ColumnSumsArgs> params = {
      .args = args,
      .rows_per_block = tiles.rows_per_block,
      .partials = TileScratch(tiles, 1, args.columns, "column sums", stream)};
  WithWidth(in_pieces, [&](auto width) {
    Launch(ColumnSumsTileKernel<T, width.value>, tiles.Shape(), params, stream);
  });
  FinishColumnSums(TileSums(tiles, params.partials, args.columns, {args.sums}), stream);
}

template <typename T>
void SumKernelCuda(const SumRowsArgs& args, Stream& stream) {
  SumEverything<T, JustSum>(args, stream);
}

void SumOfSquaresKernelCuda(const SumRowsArgs& args, Stream& stream) {
  SumEverything<float, SquaresAndBroken>(args, stream);
}

template void ColumnSumsKernelCuda<float>(const ColumnSumsArgs&, Stream&);
template void ColumnSumsKernelCuda<BFloat16>(const ColumnSumsArgs&, Stream&);
template void ColumnSumsKernelCuda<Float16>(const ColumnSumsArgs&, Stream&);
template void SumKernelCuda<float>(const SumRowsArgs&, Stream&);
template void SumKernelCuda<BFloat16>(const SumRowsArgs&, Stream&);
template void SumKernelCuda<Float16>(const SumRowsArgs&, Stream&);

}  // namespace dtrain
