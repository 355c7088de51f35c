// dropout_residual_cuda.cu - bias, dropout and the residual sum on the GPU, with one pass each way.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/column_tiles.cuh"
#include "dtrain/ops/internal/dropout_residual_kernel.h"

namespace dtrain {
namespace {

// out = residual + dropout(x + bias).
// Geometry: column_tiles.cuh. Traffic: reads x and residual once, writes out once (6 bytes per
//   element of a 16-bit type).
// Fast because: 16-byte accesses, two rows per thread in flight, the bias in registers.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    DropoutResidualForwardTileKernel(TiledArgs<DropoutResidualForwardArgs> params) {
  const DropoutResidualForwardArgs& args = params.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  const auto bias = LoadOptionalPiece<kWidth>(at.template OfVector<T>(args.bias));
  for (int64_t r = at.begin; r < at.end; r += kTileBatch * kTileRows) {
    Piece<T, kWidth> x[kTileBatch], residual[kTileBatch];
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      const bool inside = row < at.end;
      x[b] = LoadOptionalPiece<kWidth>(inside ? RowAt<T>(args.x, row, at.column) : nullptr);
      residual[b] = LoadOptionalPiece<kWidth>(
          inside ? OptionalRowAt<T>(args.residual, row, at.column) : nullptr);
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      if (row >= at.end) continue;
      const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
      float out[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float value = ApplyDropout(x[b][i] + bias[i], kept, i, args.dropout.scale);
        out[i] = value + residual[b][i];
      }
      StorePiece(RowAt<T>(args.out, row, at.column), MakePiece<T>(out));
    }
  }
}

// dx = dropout(d_out); d_bias += the column sums of dx before rounding. Geometry: column_tiles.cuh.
// Traffic: reads d_out, and writes dx unless it is d_out and unchanged.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    DropoutResidualBackwardTileKernel(TiledArgs<DropoutResidualBackwardArgs> params) {
  const DropoutResidualBackwardArgs& args = params.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  float sums[1][kWidth] = {};
  for (int64_t r = at.begin; r < at.end; r += kTileBatch * kTileRows) {
    Piece<T, kWidth> d[kTileBatch];
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      d[b] =
          LoadOptionalPiece<kWidth>(row < at.end ? RowAt<T>(args.d_out, row, at.column) : nullptr);
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      if (row >= at.end) continue;
      const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
      float dx[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        dx[i] = ApplyDropout(d[b][i], kept, i, args.dropout.scale);
        sums[0][i] += dx[i];
      }
      if (args.dx.data != nullptr) StorePiece(RowAt<T>(args.dx, row, at.column), MakePiece<T>(dx));
    }
  }
  if (params.partials != nullptr) StoreTileSums<1>(sums, args.columns, params.partials);
}

}  // namespace

template <typename T>
void DropoutResidualForwardKernelCuda(const DropoutResidualForwardArgs& args, Stream& stream) {
  const bool in_pieces =
      InPieces<T>(args.columns, {args.x, args.residual, args.out, VectorOf(args.bias)});
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  const TiledArgs<DropoutResidualForwardArgs> params = {.args = args,
                                                        .rows_per_block = tiles.rows_per_block};
  WithWidth(in_pieces, [&](auto width) {
    Launch(DropoutResidualForwardTileKernel<T, width.value>, tiles.Shape(), params, stream);
  });
}

template <typename T>
void DropoutResidualBackwardKernelCuda(const DropoutResidualBackwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.d_out, args.dx});
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  TiledArgs<DropoutResidualBackwardArgs> params = {.args = args,
                                                   .rows_per_block = tiles.rows_per_block};
  if (!args.dropout.on && args.dx.data == args.d_out.data) {
    params.args.dx = {};  // dx already has these values
    if (args.d_bias == nullptr) return;
  }
  if (args.d_bias != nullptr)
    params.partials = TileScratch(tiles, 1, args.columns, "dropout and residual, backward", stream);
  WithWidth(in_pieces, [&](auto width) {
    Launch(DropoutResidualBackwardTileKernel<T, width.value>, tiles.Shape(), params, stream);
  });
  if (args.d_bias != nullptr) {
    FinishColumnSums(TileSums(tiles, params.partials, args.columns, {args.d_bias}), stream);
  }
}

template void DropoutResidualForwardKernelCuda<float>(const DropoutResidualForwardArgs&, Stream&);
template void DropoutResidualForwardKernelCuda<BFloat16>(const DropoutResidualForwardArgs&,
                                                         Stream&);
template void DropoutResidualForwardKernelCuda<Float16>(const DropoutResidualForwardArgs&, Stream&);
template void DropoutResidualBackwardKernelCuda<float>(const DropoutResidualBackwardArgs&, Stream&);
template void DropoutResidualBackwardKernelCuda<BFloat16>(const DropoutResidualBackwardArgs&,
                                                          Stream&);
template void DropoutResidualBackwardKernelCuda<Float16>(const DropoutResidualBackwardArgs&,
                                                         Stream&);

}  // namespace dtrain
