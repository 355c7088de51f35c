// layer_norm_backward_kernel.cuh - layer norm's backward, with the column sums for its parameters.
// SPDX-License-Identifier: Apache-2.0
//
// For each row, with normal = (x - mean) rstd and g = dy gamma:
//   d = rstd (g - mean(g) - normal mean(g normal)) + d_residual,  d_x = d,  d_dropped = dropout(d)
// and summed over the rows: d_gamma += dy normal, d_beta += dy, d_bias += dropout(d).
#ifndef DTRAIN_OPS_INTERNAL_LAYER_NORM_BACKWARD_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_LAYER_NORM_BACKWARD_KERNEL_CUH_

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/column_tiles.cuh"
#include "dtrain/ops/internal/layer_norm_forward_kernel.cuh"
#include "dtrain/ops/internal/layer_norm_kernel.h"

namespace dtrain {

// partials: [blocks, sums, columns]; the order of sums is d_gamma, d_beta, d_bias.
struct LayerNormBackwardWarpArgs {
  LayerNormBackwardArgs args;
  float* partials = nullptr;
};

// Adds the sums of the block's warps and stores them in the block's part of `partials`.
template <int kSums, int kChunks>
__device__ __forceinline__ void StoreWarpSums(const float (&sums)[kSums][kChunks][kPieceWidth],
                                              int columns, float* partials) {
  struct Storage {
    float of_warp[kRowWarps][kChunks * kChunkColumns];
  };
  Storage& storage = SharedStorage<Storage>();
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    __syncthreads();  // other threads may still read the previous sums
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) {
        storage.of_warp[thread / kWarpSize][LaneColumn(k) + i] = sums[s][k][i];
      }
    }
    __syncthreads();
    for (int c = thread; c < columns; c += kRowThreads) {
      float sum = 0.0f;
#pragma unroll
      for (int warp = 0; warp < kRowWarps; ++warp) sum += storage.of_warp[warp][c];
      partials[(int64_t{blockIdx.x} * kSums + s) * columns + c] = sum;
    }
  }
}

struct RowMeans {
  float mean, rstd;
  float mean_g, mean_g_normal;  // means over the row
};

// Computes the row's means, and adds its terms of d_gamma and d_beta. `dy` and `x` are this lane's
// columns.
template <typename T, int kSums, int kChunks>
__device__ __forceinline__ RowMeans MeansOfRow(const LayerNormBackwardArgs& args, int64_t r,
                                               const Piece<T, kPieceWidth> (&dy)[kChunks],
                                               const Piece<T, kPieceWidth> (&x)[kChunks],
                                               float (&sums)[kSums][kChunks][kPieceWidth]) {
  const int columns = static_cast<int>(args.columns);
  const float mean = args.mean[r];
  const float rstd = args.rstd[r];
  float sum_g = 0.0f;
  float sum_g_normal = 0.0f;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    const int c = LaneColumn(k);
    if (c >= columns) continue;
    const auto gamma = LoadPiece<kPieceWidth>(args.gamma + c);
#pragma unroll
    for (int i = 0; i < kPieceWidth; ++i) {
      const float normal = (x[k][i] - mean) * rstd;
      const float g = dy[k][i] * gamma[i];
      sum_g += g;
      sum_g_normal += g * normal;
      sums[0][k][i] += dy[k][i] * normal;
      sums[1][k][i] += dy[k][i];
    }
  }
  const float count = static_cast<float>(columns);
  return {mean, rstd, WarpSum(sum_g) / count, WarpSum(sum_g_normal) / count};
}

// Stores the gradient of this lane's chunk k. If fused, also stores the gradient after dropout and
// adds it to `dropped_sums`.
template <typename T, bool kFused>
__device__ __forceinline__ void StoreGradient(const LayerNormBackwardArgs& args, int64_t r, int c,
                                              const RowMeans& row, const Piece<T, kPieceWidth>& dy,
                                              const Piece<T, kPieceWidth>& x,
                                              float (&dropped_sums)[kPieceWidth]) {
  const auto gamma = LoadPiece<kPieceWidth>(args.gamma + c);
  float d[kPieceWidth];
#pragma unroll
  for (int i = 0; i < kPieceWidth; ++i) {
    const float normal = (x[i] - row.mean) * row.rstd;
    d[i] = (dy[i] * gamma[i] - row.mean_g - normal * row.mean_g_normal) * row.rstd;
  }
  if constexpr (!kFused) {
    if (args.d_residual.data != nullptr) {
      const auto d_residual = LoadPiece<kPieceWidth>(RowAt<T>(args.d_residual, r, c));
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) d[i] += d_residual[i];
    }
  }
  StorePiece(RowAt<T>(args.d_x, r, c), MakePiece<T>(d));
  if constexpr (kFused) {
    const KeptElements kept = KeptOfPiece<kPieceWidth>(args.dropout, r, args.columns, c);
#pragma unroll
    for (int i = 0; i < kPieceWidth; ++i) {
      d[i] = ApplyDropout(d[i], kept, i, args.dropout.scale);
      dropped_sums[i] += d[i];
    }
    if (args.d_dropped.data != nullptr) {
      StorePiece(RowAt<T>(args.d_dropped, r, c), MakePiece<T>(d));
    }
  }
}

// Geometry: 1 warp per row, 4 per block, each with several rows.
// Traffic for a 16-bit type: 6 bytes per element, 8 with d_residual or d_dropped, plus the blocks'
//   sums. At 8192 x 768 on an H200, fused with dropout, this takes at least 11.7 us (model).
// Fast because: dy and x are read once, all loads are in flight before the first is used, and the
//   values stay in registers as T. So do the two or three sums of every column, until the block's
//   last row. gamma comes from the L1 cache, which leaves registers for the sums.
// Shared memory: kChunks * 4 KiB. Dropout's element number: row number * columns + column.
template <typename T, int kChunks, bool kFused>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 2 ? 3 : 2)
    LayerNormBackwardWarpKernel(LayerNormBackwardWarpArgs params) {
  const LayerNormBackwardArgs& args = params.args;
  const int columns = static_cast<int>(args.columns);
  constexpr int kSums = kFused ? 3 : 2;
  float sums[kSums][kChunks][kPieceWidth] = {};
  const int64_t step = int64_t{gridDim.x} * kRowWarps;
  for (int64_t r = FirstWarpRow(); r < args.row_end; r += step) {
    Piece<T, kPieceWidth> dy[kChunks], x[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = LaneColumn(k);
      const bool inside = c < columns;
      dy[k] = LoadOptionalPiece<kPieceWidth>(inside ? RowAt<T>(args.dy, r, c) : nullptr);
      x[k] = LoadOptionalPiece<kPieceWidth>(inside ? RowAt<T>(args.x, r, c) : nullptr);
    }
    const RowMeans row = MeansOfRow(args, r, dy, x, sums);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const int c = LaneColumn(k);
      if (c >= columns) continue;
      StoreGradient<T, kFused>(args, r, c, row, dy[k], x[k], sums[kSums - 1][k]);
    }
  }
  StoreWarpSums<kSums, kChunks>(sums, columns, params.partials);
}

// Other widths use two kernels. The first computes the rows' means, one block per row; the second
// does the rest, by columns.
struct LayerNormBackwardTileArgs {
  LayerNormBackwardArgs args;
  float* means = nullptr;  // [rows, 2]: means of g and of g normal
};

// Computes the means of g and g normal for each row. Reads dy and x.
template <typename T, int kWidth>
__global__ void __launch_bounds__(1024)
    LayerNormBackwardMeansKernel(LayerNormBackwardTileArgs params) {
  const LayerNormBackwardArgs& args = params.args;
  const int64_t r = blockIdx.x;
  const float mean = args.mean[r];
  const float rstd = args.rstd[r];
  float sum_g = 0.0f;
  float sum_g_normal = 0.0f;
  const int64_t step = int64_t{blockDim.x} * kWidth;
  for (int64_t c = int64_t{threadIdx.x} * kWidth; c < args.columns; c += step) {
    const auto dy = LoadPiece<kWidth>(RowAt<T>(args.dy, r, c));
    const auto x = LoadPiece<kWidth>(RowAt<T>(args.x, r, c));
    const auto gamma = LoadPiece<kWidth>(args.gamma + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = dy[i] * gamma[i];
      sum_g += g;
      sum_g_normal += g * ((x[i] - mean) * rstd);
    }
  }
  const float count = static_cast<float>(args.columns);
  const float mean_g = BlockSum(sum_g) / count;
  const float mean_g_normal = BlockSum(sum_g_normal) / count;
  if (threadIdx.x == 0) {
    params.means[2 * r] = mean_g;
    params.means[2 * r + 1] = mean_g_normal;
  }
}

// Computes d_x, d_dropped and the tiles' sums. Geometry: column_tiles.cuh. Traffic: dy and x once
// more than the warp kernel.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads)
    LayerNormBackwardTileKernel(TiledArgs<LayerNormBackwardTileArgs> params) {
  const LayerNormBackwardArgs& args = params.args.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  const auto gamma = LoadOptionalPiece<kWidth>(at.template OfVector<float>(args.gamma));
  float sums[3][kWidth] = {};
  for (int64_t r = at.begin; r < at.end; r += kTileRows) {
    const auto dy = LoadPiece<kWidth>(RowAt<T>(args.dy, r, at.column));
    const auto x = LoadPiece<kWidth>(RowAt<T>(args.x, r, at.column));
    const auto d_residual =
        LoadOptionalPiece<kWidth>(OptionalRowAt<const T>(args.d_residual, r, at.column));
    const float mean = args.mean[r];
    const float rstd = args.rstd[r];
    const float mean_g = params.args.means[2 * r];
    const float mean_g_normal = params.args.means[2 * r + 1];
    const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, r, args.columns, at.column);
    float d[kWidth], dropped[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float normal = (x[i] - mean) * rstd;
      sums[0][i] += dy[i] * normal;
      sums[1][i] += dy[i];
      d[i] = (dy[i] * gamma[i] - mean_g - normal * mean_g_normal) * rstd + d_residual[i];
      dropped[i] = ApplyDropout(d[i], kept, i, args.dropout.scale);
      sums[2][i] += dropped[i];
    }
    StorePiece(RowAt<T>(args.d_x, r, at.column), MakePiece<T>(d));
    if (args.d_dropped.data != nullptr) {
      StorePiece(RowAt<T>(args.d_dropped, r, at.column), MakePiece<T>(dropped));
    }
  }
  StoreTileSums<3>(sums, args.columns, params.partials);
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAYER_NORM_BACKWARD_KERNEL_CUH_
