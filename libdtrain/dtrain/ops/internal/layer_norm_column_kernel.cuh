// layer_norm_column_kernel.cuh - layer norm's backward for rows of 257 to 1024 columns.
// SPDX-License-Identifier: Apache-2.0
//
// The formulas are those of layer_norm_backward_kernel.cuh.
#ifndef DTRAIN_OPS_INTERNAL_LAYER_NORM_COLUMN_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_LAYER_NORM_COLUMN_KERNEL_CUH_

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dtrain/ops/internal/layer_norm_backward_kernel.cuh"

namespace dtrain {

// Number of blocks of `warps` warps that an H200 can hold at once, with up to 128 registers a
// thread: the most that four blocks of four warps leave.
constexpr int ColumnBlocks(int warps) { return warps == 2 ? 8 : warps == 3 ? 5 : 4; }
// Rows of a turn. Two of a 16-bit type take the registers of one of float.
template <typename T>
inline constexpr int kTurnRows = sizeof(T) == 2 ? 2 : 1;

// The part of a row that a thread reads. Zeros stand beyond the last row or column; they add
// nothing to any sum.
template <typename T, bool kFused>
struct ColumnInputs {
  struct None {};
  Piece<T, kPieceWidth> dy, x;
  std::conditional_t<kFused, None, Piece<T, kPieceWidth>> d_residual;
  float mean, rstd;
  int32_t number;  // for dropout

  __device__ __forceinline__ void Load(const LayerNormBackwardArgs& args, int r, int column) {
    const bool in_rows = r < static_cast<int>(args.row_end);
    const bool inside = in_rows && column < static_cast<int>(args.columns);
    dy = LoadOptionalPiece<kPieceWidth>(inside ? ColumnsAt<T>(args.dy, r, column) : nullptr);
    x = LoadOptionalPiece<kPieceWidth>(inside ? ColumnsAt<T>(args.x, r, column) : nullptr);
    mean = in_rows ? args.mean[r] : 0.0f;
    rstd = in_rows ? args.rstd[r] : 0.0f;
    if constexpr (kFused) {
      number = r;
      if (in_rows && args.dropout.row_numbers != nullptr) {
        number = __ldg(args.dropout.row_numbers + r);
      }
    } else if (args.d_residual.data != nullptr) {
      d_residual = LoadOptionalPiece<kPieceWidth>(inside ? ColumnsAt<T>(args.d_residual, r, column)
                                                         : nullptr);
    } else {
      d_residual = {};
    }
  }
};

// The sums over a row of g and of g normal.
struct RowSums {
  float g, g_normal;
};

// Adds each of the rows' sums over the warp, and leaves them in of_row[]. With two rows, lanes
// first share the four sums among them: 6 exchanges instead of 20.
template <int kRows>
__device__ __forceinline__ void StoreRowSums(const RowSums (&sums)[kRows], RowSums* of_row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if constexpr (kRows == 1) {
    const RowSums total = {WarpSum(sums[0].g), WarpSum(sums[0].g_normal)};
    if (lane == 0) of_row[0] = total;
  } else {
    static_assert(kRows == 2);
    // Lanes from 16 on keep the second row's sums, and every second eight lanes keep g_normal's.
    const bool second = (lane & 16) != 0;
    const bool normal = (lane & 8) != 0;
    const auto exchange = [](float mine, float theirs, int mask) {
      return mine + __shfl_xor_sync(kFullWarp, theirs, mask);
    };
    const float g = exchange(second ? sums[1].g : sums[0].g, second ? sums[0].g : sums[1].g, 16);
    const float g_normal = exchange(second ? sums[1].g_normal : sums[0].g_normal,
                                    second ? sums[0].g_normal : sums[1].g_normal, 16);
    float sum = exchange(normal ? g_normal : g, normal ? g : g_normal, 8);
#pragma unroll
    for (int mask = 4; mask > 0; mask /= 2) sum += __shfl_xor_sync(kFullWarp, sum, mask);
    if (lane % 8 == 0) reinterpret_cast<float*>(of_row)[lane / 8] = sum;
  }
}

// d = (g - mean_g - normal mean_g_normal) rstd of an element, with what a row's elements share
// computed once. For float, (x - mean) rstd is kept as it is: x rstd - mean rstd would lose the
// digits in which x and a large mean agree. A 16-bit x does not have these digits.
template <typename T>
struct RowGradient {
  static constexpr bool kShort = sizeof(T) == 2;
  __device__ __forceinline__ RowGradient(float mean, float rstd, float mean_g, float mean_g_normal)
      : mean_(mean), rstd_(rstd), slope_(-mean_g_normal * rstd), constant_(-mean_g * rstd) {
    if constexpr (kShort) {
      constant_ -= slope_ * mean * rstd;
      slope_ *= rstd;
    }
  }
  __device__ __forceinline__ float operator()(float g, float x) const {
    const float plain = g * rstd_ + constant_;
    if constexpr (kShort) return x * slope_ + plain;
    return (x - mean_) * rstd_ * slope_ + plain;
  }

 private:
  float mean_, rstd_, slope_, constant_;
};

template <typename T>
__device__ __forceinline__ float NormalOf(float x, float mean, float rstd) {
  if constexpr (sizeof(T) == 2) return x * rstd - mean * rstd;
  return (x - mean) * rstd;
}

// Geometry: a block of kWarps warps takes one or two rows a turn; a thread owns eight columns of
// all
//   of them. As many blocks as are resident at once.
// Traffic: as LayerNormBackwardWarpKernel.
// Fast because: the next turn's rows are loading while this turn's are computed, 8 KiB in a block
// of
//   four warps. A thread's sums and its part of gamma take 24 to 32 registers, whatever the width,
//   so 16 warps fit. A turn has one barrier: its sums alternate between two places, so nobody
//   overwrites what another thread still reads.
// Shared memory: 32 bytes a warp. Dropout's element number: row number * columns + column.
template <typename T, int kWarps, bool kFused>
__global__ void __launch_bounds__(kRowThreads, 4)
    LayerNormBackwardColumnKernel(LayerNormBackwardWarpArgs params) {
  constexpr int kRows = kTurnRows<T>;
  constexpr int kSums = kFused ? 3 : 2;
  struct Storage {
    RowSums of_warp[2][kWarps][kRows];
  };
  Storage& storage = SharedStorage<Storage>();
  const LayerNormBackwardArgs& args = params.args;
  const int columns = static_cast<int>(args.columns);
  const int row_end = static_cast<int>(args.row_end);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int column = static_cast<int>(threadIdx.x) * kPieceWidth;
  const bool inside = column < columns;
  const float share = 1.0f / static_cast<float>(columns);
  const auto gamma = LoadOptionalPiece<kPieceWidth>(inside ? args.gamma + column : nullptr);
  float sums[kSums][kPieceWidth] = {};
  ColumnInputs<T, kFused> rows[kRows];
  int first = static_cast<int>(blockIdx.x) * kRows;
  const int step = static_cast<int>(gridDim.x) * kRows;
#pragma unroll
  for (int k = 0; k < kRows; ++k) rows[k].Load(args, first + k, column);
  for (int turn = 0; first < row_end; first += step, turn ^= 1) {
    ColumnInputs<T, kFused> next[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) next[k].Load(args, first + step + k, column);
    RowSums partial[kRows] = {};
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) {
        const float dy = rows[k].dy[i];
        const float normal = NormalOf<T>(rows[k].x[i], rows[k].mean, rows[k].rstd);
        const float g = dy * gamma[i];
        partial[k].g += g;
        partial[k].g_normal += g * normal;
        sums[0][i] += dy * normal;
        sums[1][i] += dy;
      }
    }
    StoreRowSums(partial, storage.of_warp[turn][warp]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      RowSums total = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        total.g += storage.of_warp[turn][w][k].g;
        total.g_normal += storage.of_warp[turn][w][k].g_normal;
      }
      const int r = first + k;
      if (!inside || r >= row_end) continue;
      const RowGradient<T> gradient(rows[k].mean, rows[k].rstd, total.g * share,
                                    total.g_normal * share);
      float d[kPieceWidth];
#pragma unroll
      for (int i = 0; i < kPieceWidth; ++i) {
        d[i] = gradient(rows[k].dy[i] * gamma[i], rows[k].x[i]);
        if constexpr (!kFused) d[i] += rows[k].d_residual[i];
      }
      StorePiece(ColumnsAt<T>(args.d_x, r, column), MakePiece<T>(d));
      if constexpr (kFused) {
        if (args.dropout.on) {
          const auto element = static_cast<uint64_t>(int64_t{rows[k].number} * columns + column);
          const KeptElements kept(WithStep(args.dropout.key, args.dropout.device_step),
                                  args.dropout.threshold, element / kPieceWidth);
#pragma unroll
          for (int i = 0; i < kPieceWidth; ++i) {
            d[i] = ApplyDropout(d[i], kept, i, args.dropout.scale);
          }
        }
#pragma unroll
        for (int i = 0; i < kPieceWidth; ++i) sums[2][i] += d[i];
        if (args.d_dropped.data != nullptr) {
          StorePiece(ColumnsAt<T>(args.d_dropped, r, column), MakePiece<T>(d));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) rows[k] = next[k];
  }
  if (!inside) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float* const of_block = params.partials + (int64_t{blockIdx.x} * kSums + s) * columns;
    StorePiece(of_block + column, MakePiece<float>(sums[s]));
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAYER_NORM_COLUMN_KERNEL_CUH_
