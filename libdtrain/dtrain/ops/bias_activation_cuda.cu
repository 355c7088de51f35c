// bias_activation_cuda.cu - bias, activation and dropout on the GPU, with one pass each way.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/activations.cuh"
#include "dtrain/ops/internal/bias_activation_kernel.h"
#include "dtrain/ops/internal/column_tiles.cuh"

namespace dtrain {
namespace {

// Number of blocks on a multiprocessor, and of rows that a thread takes a turn. A float takes twice
// the registers of a 16-bit value.
template <typename T>
inline constexpr int kForwardBlocks = sizeof(T) == 2 ? 4 : 3;
constexpr int kBackwardBlocks = 3;
template <typename T>
inline constexpr int kBackwardBatch = sizeof(T) == 2 ? kTileBatch : 1;

// y = dropout(A(x + bias)).
// Geometry: column_tiles.cuh, WalkRows. Traffic: reads x and writes y (4 bytes per element of a
//   16-bit type).
// Fast because: 16-byte accesses; the next two rows of a thread are loading while it computes two;
//   the bias stays in registers; all blocks are resident and have the same number of turns, so no
//   wave of blocks is partly empty. gelu takes 8 instructions per element of a 16-bit type, two
//   of them special functions, which is less time than reading takes on an H200 (model).
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kForwardBlocks<T>)
    BiasActivationForwardTileKernel(TiledArgs<BiasActivationForwardArgs> params) {
  const BiasActivationForwardArgs& args = params.args;
  const WalkRows<kWidth> at(args.row_end, args.columns);
  const auto bias = LoadOptionalPiece<kWidth>(at.template OfVector<T>(args.bias));
  Piece<T, kWidth> x[kTileBatch];
  at.Load(args.x, at.last, x);
  for (int r = at.last; r >= 0; r -= kTileBatch * at.step) {
    Piece<T, kWidth> next[kTileBatch];
    at.Load(args.x, r - kTileBatch * at.step, next);
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int row = r - b * at.step;
      if (row < 0) continue;
      float y[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) y[i] = A::Value(x[b][i] + bias[i]);
      if (args.dropout.on) {
        const KeptElements kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = ApplyDropout(y[i], kept, i, args.dropout.scale);
      }
      StorePiece(ColumnsAt<T>(args.y, row, at.column), MakePiece<T>(y));
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) x[b] = next[b];
  }
}

// Relu's backward from the forward's output. It is 0 where relu or dropout zeroed the element, so
// the dropout bits are not needed again.
struct ReluFromOutput {
  __device__ __forceinline__ static float Gradient(float y, float d) {
    return y == 0.0f ? 0.0f : d;
  }
};

// dx = dropout(dy A'(x + bias)); d_bias += the column sums of dx before rounding.
// Geometry: as forward. Traffic: reads dy and x, writes dx (6 bytes per element of a 16-bit type)
//   and the sums of each block.
// Fast because: as forward, and the sums stay in registers until the end of the block.
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kBackwardBlocks)
    BiasActivationBackwardTileKernel(TiledArgs<BiasActivationBackwardArgs> params) {
  constexpr int kBatch = kBackwardBatch<T>;
  const BiasActivationBackwardArgs& args = params.args;
  const WalkRows<kWidth> at(args.row_end, args.columns);
  const auto bias = LoadOptionalPiece<kWidth>(at.template OfVector<T>(args.bias));
  float sums[1][kWidth] = {};
  Piece<T, kWidth> x[kBatch], d[kBatch];
  at.Load(args.x, at.last, x);
  at.Load(args.dy, at.last, d);
  for (int r = at.last; r >= 0; r -= kBatch * at.step) {
    Piece<T, kWidth> next_x[kBatch], next_d[kBatch];
    at.Load(args.x, r - kBatch * at.step, next_x);
    at.Load(args.dy, r - kBatch * at.step, next_d);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int row = r - b * at.step;
      if (row < 0) continue;
      float dx[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) dx[i] = A::Gradient(x[b][i] + bias[i], d[b][i]);
      if (args.dropout.on) {
        KeptElements kept;
        if constexpr (!std::is_same_v<A, ReluFromOutput>) {
          kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
        }
#pragma unroll
        for (int i = 0; i < kWidth; ++i) dx[i] = ApplyDropout(dx[i], kept, i, args.dropout.scale);
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[0][i] += dx[i];
      StorePiece(ColumnsAt<T>(args.dx, row, at.column), MakePiece<T>(dx));
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      x[b] = next_x[b];
      d[b] = next_d[b];
    }
  }
  if (params.partials != nullptr) StoreTileSums<1>(sums, args.columns, params.partials);
}

template <typename T, typename A>
void RunBackward(const BiasActivationBackwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.dy, args.x, args.dx, VectorOf(args.bias)});
  const ColumnTiles tiles = ColumnTiles::Resident(
      args.row_end, args.columns, in_pieces ? kPieceWidth : 1, kBackwardBlocks, kBackwardBatch<T>);
  TiledArgs<BiasActivationBackwardArgs> params = {.args = args};
  if (args.d_bias != nullptr)
    params.partials = TileScratch(tiles, 1, args.columns, "bias and activation, backward", stream);
  WithWidth(in_pieces, [&](auto width) {
    Launch(BiasActivationBackwardTileKernel<T, width.value, A>, tiles.Shape(), params, stream);
  });
  if (args.d_bias != nullptr) {
    FinishColumnSums(TileSums(tiles, params.partials, args.columns, {args.d_bias}), stream);
  }
}

}  // namespace

template <typename T>
void BiasActivationForwardKernelCuda(const BiasActivationForwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.x, args.y, VectorOf(args.bias)});
  const ColumnTiles tiles = ColumnTiles::Resident(
      args.row_end, args.columns, in_pieces ? kPieceWidth : 1, kForwardBlocks<T>, kTileBatch);
  const TiledArgs<BiasActivationForwardArgs> params = {.args = args};
  WithActivation<T>(args.activation, [&]<typename A>() {
    WithWidth(in_pieces, [&](auto width) {
      Launch(BiasActivationForwardTileKernel<T, width.value, A>, tiles.Shape(), params, stream);
    });
  });
}

template <typename T>
void BiasActivationBackwardKernelCuda(const BiasActivationBackwardArgs& args, Stream& stream) {
  WithActivation<T>(args.activation, [&]<typename A>() { RunBackward<T, A>(args, stream); });
}

template <typename T>
void ReluBackwardFromOutputKernelCuda(const BiasActivationBackwardArgs& args, Stream& stream) {
  RunBackward<T, ReluFromOutput>(args, stream);
}

template void BiasActivationForwardKernelCuda<float>(const BiasActivationForwardArgs&, Stream&);
template void BiasActivationForwardKernelCuda<BFloat16>(const BiasActivationForwardArgs&, Stream&);
template void BiasActivationForwardKernelCuda<Float16>(const BiasActivationForwardArgs&, Stream&);
template void BiasActivationBackwardKernelCuda<float>(const BiasActivationBackwardArgs&, Stream&);
template void BiasActivationBackwardKernelCuda<BFloat16>(const BiasActivationBackwardArgs&,
                                                         Stream&);
template void BiasActivationBackwardKernelCuda<Float16>(const BiasActivationBackwardArgs&, Stream&);
template void ReluBackwardFromOutputKernelCuda<float>(const BiasActivationBackwardArgs&, Stream&);
template void ReluBackwardFromOutputKernelCuda<BFloat16>(const BiasActivationBackwardArgs&,
                                                         Stream&);
template void ReluBackwardFromOutputKernelCuda<Float16>(const BiasActivationBackwardArgs&, Stream&);

}  // namespace dtrain
