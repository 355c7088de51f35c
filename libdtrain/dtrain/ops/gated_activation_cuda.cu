// gated_activation_cuda.cu - activation, gate and dropout on the GPU, with one pass each way.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/activations.cuh"
#include "dtrain/ops/internal/column_tiles.cuh"
#include "dtrain/ops/internal/gated_activation_kernel.h"

namespace dtrain {
namespace {

// Number of rows that a thread takes a turn. A float takes twice the registers of a 16-bit value.
template <typename T>
inline constexpr int kForwardBatch = sizeof(T) == 2 ? kTileBatch : 1;

// y = dropout(A(a) g).
// Geometry: column_tiles.cuh, WalkRows. Traffic: reads a and g, writes y (6 bytes per element of y
//   for a 16-bit type).
// Fast because: 16-byte accesses; the next rows of a thread are loading while it computes these;
//   all blocks are resident and have the same number of turns.
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    GatedActivationForwardTileKernel(GatedActivationForwardArgs args) {
  constexpr int kBatch = kForwardBatch<T>;
  const WalkRows<kWidth> at(args.row_end, args.columns);
  Piece<T, kWidth> a[kBatch], g[kBatch];
  at.Load(args.a, at.last, a);
  at.Load(args.g, at.last, g);
  for (int r = at.last; r >= 0; r -= kBatch * at.step) {
    Piece<T, kWidth> next_a[kBatch], next_g[kBatch];
    at.Load(args.a, r - kBatch * at.step, next_a);
    at.Load(args.g, r - kBatch * at.step, next_g);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int row = r - b * at.step;
      if (row < 0) continue;
      float y[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) y[i] = A::Value(a[b][i]) * g[b][i];
      if (args.dropout.on) {
        const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = ApplyDropout(y[i], kept, i, args.dropout.scale);
      }
      StorePiece(ColumnsAt<T>(args.y, row, at.column), MakePiece<T>(y));
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      a[b] = next_a[b];
      g[b] = next_g[b];
    }
  }
}

// da = dropout(dy) g A'(a), dg = dropout(dy) A(a).
// Geometry: as forward, one row a turn. Traffic: reads dy, a and g, writes da and dg (10 bytes per
//   element of dy for a 16-bit type).
// Fast because: as forward. In place, a thread has loaded its elements before it writes them, and
//   no other thread needs them.
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    GatedActivationBackwardTileKernel(GatedActivationBackwardArgs args) {
  const WalkRows<kWidth> at(args.row_end, args.columns);
  Piece<T, kWidth> dy[1], a[1], g[1];
  at.Load(args.dy, at.last, dy);
  at.Load(args.a, at.last, a);
  at.Load(args.g, at.last, g);
  for (int r = at.last; r >= 0; r -= at.step) {
    Piece<T, kWidth> next_dy[1], next_a[1], next_g[1];
    at.Load(args.dy, r - at.step, next_dy);
    at.Load(args.a, r - at.step, next_a);
    at.Load(args.g, r - at.step, next_g);
    KeptElements kept;
    if (args.dropout.on) kept = KeptOfPiece<kWidth>(args.dropout, r, args.columns, at.column);
    float da[kWidth], dg[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float d = ApplyDropout(dy[0][i], kept, i, args.dropout.scale);
      da[i] = A::Gradient(a[0][i], d * g[0][i]);
      dg[i] = d * A::Value(a[0][i]);
    }
    StorePiece(ColumnsAt<T>(args.da, r, at.column), MakePiece<T>(da));
    StorePiece(ColumnsAt<T>(args.dg, r, at.column), MakePiece<T>(dg));
    dy[0] = next_dy[0];
    a[0] = next_a[0];
    g[0] = next_g[0];
  }
}

LaunchShape TilesFor(int64_t rows, int64_t columns, int width, int batch) {
  return ColumnTiles::Resident(rows, columns, width, kTileBlocks, batch).Shape();
}

}  // namespace

template <typename T>
void GatedActivationForwardKernelCuda(const GatedActivationForwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.a, args.g, args.y});
  WithActivation<T>(args.activation, [&]<typename A>() {
    WithWidth(in_pieces, [&](auto width) {
      Launch(GatedActivationForwardTileKernel<T, width.value, A>,
             TilesFor(args.row_end, args.columns, width.value, kForwardBatch<T>), args, stream);
    });
  });
}

template <typename T>
void GatedActivationBackwardKernelCuda(const GatedActivationBackwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.dy, args.a, args.g, args.da, args.dg});
  WithActivation<T>(args.activation, [&]<typename A>() {
    WithWidth(in_pieces, [&](auto width) {
      Launch(GatedActivationBackwardTileKernel<T, width.value, A>,
             TilesFor(args.row_end, args.columns, width.value, 1), args, stream);
    });
  });
}

template void GatedActivationForwardKernelCuda<float>(const GatedActivationForwardArgs&, Stream&);
template void GatedActivationForwardKernelCuda<BFloat16>(const GatedActivationForwardArgs&,
                                                         Stream&);
template void GatedActivationForwardKernelCuda<Float16>(const GatedActivationForwardArgs&, Stream&);
template void GatedActivationBackwardKernelCuda<float>(const GatedActivationBackwardArgs&, Stream&);
template void GatedActivationBackwardKernelCuda<BFloat16>(const GatedActivationBackwardArgs&,
                                                          Stream&);
template void GatedActivationBackwardKernelCuda<Float16>(const GatedActivationBackwardArgs&,
                                                         Stream&);

}  // namespace dtrain
