// layer_norm_forward_kernel.cuh - layer norm's forward, plain or after bias, dropout and residual.
// SPDX-License-Identifier: Apache-2.0
//
//   sum = residual + dropout(x + bias)    (fused; rounded to T before the statistics)
//   y = (sum - mean) rstd gamma + beta
#ifndef DTRAIN_OPS_INTERNAL_LAYER_NORM_FORWARD_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_LAYER_NORM_FORWARD_KERNEL_CUH_

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/layer_norm_kernel.h"
#include "dtrain/ops/internal/row_pieces.cuh"

namespace dtrain {

// One warp per row, for rows of whole pieces with up to kMaxWarpColumns columns.
inline constexpr int kRowThreads = 128;
inline constexpr int kRowWarps = kRowThreads / kWarpSize;
// Number of columns of a chunk: one piece for each lane.
inline constexpr int kChunkColumns = kWarpSize * kPieceWidth;
inline constexpr int kMaxChunks = 4;
inline constexpr int kMaxWarpColumns = kMaxChunks * kChunkColumns;

// First column of this lane's piece of chunk k.
__device__ __forceinline__ int LaneColumn(int k) {
  return k * kChunkColumns + static_cast<int>(threadIdx.x) % kWarpSize * kPieceWidth;
}
// The first row of this warp; its next row is kRowWarps * gridDim.x further.
__device__ __forceinline__ int64_t FirstWarpRow() {
  return int64_t{blockIdx.x} * kRowWarps + static_cast<int>(threadIdx.x) / kWarpSize;
}

// Number of blocks of a kernel whose warps process several rows each: all warps get the same number
// of rows, and there are at most `most` blocks, which all run at once.
inline int64_t WarpRowBlocks(int64_t rows, int64_t most) {
  const int64_t rows_per_warp = CeilDivide(rows, most * kRowWarps);
  return rows == 0 ? 0 : CeilDivide(rows, rows_per_warp * kRowWarps);
}

// Loads this lane's columns of row r of layer norm's input; lanes without columns hold zeros. If
// fused, the input is first computed and stored.
template <typename T, int kChunks, bool kFused>
__device__ __forceinline__ void LoadRow(const LayerNormForwardArgs& args, int64_t r,
                                        Piece<T, kPieceWidth> (&row)[kChunks]) {
  const int columns = static_cast<int>(args.columns);
  Piece<T, kPieceWidth> residual[kFused ? kChunks : 1];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = LaneColumn(k);
    const bool inside = c < columns;
    row[k] = LoadOptionalPiece<kPieceWidth>(inside ? RowAt<T>(args.x, r, c) : nullptr);
    if constexpr (kFused) {
      residual[k] =
          LoadOptionalPiece<kPieceWidth>(inside ? RowAt<T>(args.residual, r, c) : nullptr);
    }
  }
  if constexpr (kFused) {
    const T* const bias_vector = static_cast<const T*>(args.bias);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = LaneColumn(k);
      if (c >= columns) continue;
      const auto bias =
          LoadOptionalPiece<kPieceWidth>(bias_vector == nullptr ? nullptr : bias_vector + c);
      const KeptElements kept = KeptOfPiece<kPieceWidth>(args.dropout, r, args.columns, c);
      float sum[kPieceWidth];
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) {
        const float value = ApplyDropout(row[k][i] + bias[i], kept, i, args.dropout.scale);
        sum[i] = value + residual[k][i];
      }
      row[k] = MakePiece<T>(sum);
      StorePiece(RowAt<T>(args.sum, r, c), row[k]);
    }
  }
}

// Geometry: 1 warp per row, 4 per block, each with several rows.
// Traffic for a 16-bit type: 8 bytes per element fused, 4 plain, plus 8 per row. At 8192 x 768 on
//   an H200, fused, this takes at least 11.7 us (model).
// Fast because: the row is read once, in 16-byte accesses that are all in flight before the first
//   is used, and stays in registers for both passes of the statistics. gamma, beta and bias come
//   from the L1 cache, which leaves registers for more warps. No shared memory, no barrier.
// Dropout's element number: row number * columns + column.
// The widest fused rows of 16-bit types need a number of blocks (0 is none): without one, ptxas of
// CUDA 13.0 puts a register on the stack. kBeta: whether there is beta; to ask for it at run time
// takes registers that rows of 512 float32 need for more warps.
template <typename T, int kChunks, bool kFused, bool kBeta>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 2 && kFused && kChunks == 4 ? 5 : 0)
    LayerNormForwardWarpKernel(LayerNormForwardArgs args) {
  const int columns = static_cast<int>(args.columns);
  const float count = static_cast<float>(columns);
  const int64_t step = int64_t{gridDim.x} * kRowWarps;
  for (int64_t r = FirstWarpRow(); r < args.row_end; r += step) {
    Piece<T, kPieceWidth> row[kChunks];
    LoadRow<T, kChunks, kFused>(args, r, row);
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) total += row[k][i];
    }
    const float mean = WarpSum(total) / count;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if (LaneColumn(k) >= columns) continue;
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) {
        const float centred = row[k][i] - mean;
        squares += centred * centred;
      }
    }
    const float rstd = 1.0f / sqrtf(WarpSum(squares) / count + args.epsilon);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = LaneColumn(k);
      if (c >= columns) continue;
      const auto gamma = LoadPiece<kPieceWidth>(args.gamma + c);
      float y[kPieceWidth];
      if constexpr (kBeta) {
        const auto beta = LoadPiece<kPieceWidth>(args.beta + c);
#pragma unroll
        for (int i = 0; i < kPieceWidth; ++i) {
          y[i] = (row[k][i] - mean) * rstd * gamma[i] + beta[i];
        }
      } else {
#pragma unroll
        for (int i = 0; i < kPieceWidth; ++i) y[i] = (row[k][i] - mean) * rstd * gamma[i];
      }
      StorePiece(RowAt<T>(args.y, r, c), MakePiece<T>(y));
    }
    if (threadIdx.x % kWarpSize == 0) {
      args.mean[r] = mean;
      args.rstd[r] = rstd;
    }
  }
}

// For other widths: a block per row, whose threads read it three times. The second and third time
// the row comes from the L1 or L2 cache, so memory traffic is the same as above. Each thread reads
// back only elements it wrote itself.
template <typename T, int kWidth>
__global__ void __launch_bounds__(1024) LayerNormForwardBlockKernel(LayerNormForwardArgs args) {
  const int64_t r = blockIdx.x;
  const int64_t first = int64_t{threadIdx.x} * kWidth;
  const int64_t step = int64_t{blockDim.x} * kWidth;
  const float count = static_cast<float>(args.columns);
  const bool fused = args.sum.data != nullptr;
  const T* const bias_vector = static_cast<const T*>(args.bias);
  float total = 0.0f;
  for (int64_t c = first; c < args.columns; c += step) {
    auto x = LoadPiece<kWidth>(RowAt<T>(args.x, r, c));
    if (fused) {
      const auto residual = LoadPiece<kWidth>(RowAt<T>(args.residual, r, c));
      const auto bias =
          LoadOptionalPiece<kWidth>(bias_vector == nullptr ? nullptr : bias_vector + c);
      const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, r, args.columns, c);
      float sum[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float value = ApplyDropout(x[i] + bias[i], kept, i, args.dropout.scale);
        sum[i] = value + residual[i];
      }
      x = MakePiece<T>(sum);
      StorePiece(RowAt<T>(args.sum, r, c), x);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) total += x[i];
  }
  const float mean = BlockSum(total) / count;
  const Rows& rows = fused ? args.sum : args.x;
  float squares = 0.0f;
  for (int64_t c = first; c < args.columns; c += step) {
    const auto x = LoadPiece<kWidth>(RowAt<T>(rows, r, c));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (x[i] - mean) * (x[i] - mean);
  }
  const float rstd = 1.0f / sqrtf(BlockSum(squares) / count + args.epsilon);
  for (int64_t c = first; c < args.columns; c += step) {
    const auto x = LoadPiece<kWidth>(RowAt<T>(rows, r, c));
    const auto gamma = LoadPiece<kWidth>(args.gamma + c);
    const auto beta = LoadOptionalPiece<kWidth>(args.beta == nullptr ? nullptr : args.beta + c);
    float y[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    StorePiece(RowAt<T>(args.y, r, c), MakePiece<T>(y));
  }
  if (threadIdx.x == 0) {
    args.mean[r] = mean;
    args.rstd[r] = rstd;
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAYER_NORM_FORWARD_KERNEL_CUH_
