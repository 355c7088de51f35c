// bias_activation_cuda.cu - bias, activation and dropout on the GPU, with one pass each way.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/activations.cuh"
#include "dtrain/ops/internal/bias_activation_kernel.h"
#include "dtrain/ops/internal/column_tiles.cuh"

namespace dtrain {
namespace {

// y = dropout(A(x + bias)).
// Geometry: column_tiles.cuh. Traffic: reads x and writes y (4 bytes per element of a 16-bit type).
// Fast because: 16-byte accesses, two rows per thread in flight, the bias in registers. gelu takes
//   about 20 instructions per element, two of them special functions, which is less time than
//   reading takes on an H200 (model).
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    BiasActivationForwardTileKernel(TiledArgs<BiasActivationForwardArgs> params) {
  const BiasActivationForwardArgs& args = params.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  const auto bias = LoadOptionalPiece<kWidth>(at.template OfVector<T>(args.bias));
  for (int64_t r = at.begin; r < at.end; r += kTileBatch * kTileRows) {
    Piece<T, kWidth> x[kTileBatch];
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      x[b] = LoadOptionalPiece<kWidth>(row < at.end ? RowAt<T>(args.x, row, at.column) : nullptr);
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      if (row >= at.end) continue;
      const uint32_t kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
      float y[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        y[i] = ApplyDropout(A::Value(x[b][i] + bias[i]), kept, i, args.dropout.scale);
      }
      StorePiece(RowAt<T>(args.y, row, at.column), MakePiece<T>(y));
    }
  }
}

// Relu's backward from the forward's output. It is 0 where relu or dropout zeroed the element, so
// the dropout bits are not needed again.
struct ReluFromOutput {
  __device__ __forceinline__ static float Gradient(float y, float d) {
    return y == 0.0f ? 0.0f : d;
  }
};

// dx = dropout(dy) A'(x + bias); d_bias += the column sums of dx before rounding.
// Geometry: column_tiles.cuh. Traffic: reads dy and x, writes dx (6 bytes per element of a 16-bit
//   type) and the sums of each block.
// Fast because: as forward, and the sums stay in registers until the end of the block.
template <typename T, int kWidth, typename A>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    BiasActivationBackwardTileKernel(TiledArgs<BiasActivationBackwardArgs> params) {
  const BiasActivationBackwardArgs& args = params.args;
  const TilePlace<kWidth> at(args.row_end, args.columns, params.rows_per_block);
  const auto bias = LoadOptionalPiece<kWidth>(at.template OfVector<T>(args.bias));
  float sums[1][kWidth] = {};
  for (int64_t r = at.begin; r < at.end; r += kTileBatch * kTileRows) {
    Piece<T, kWidth> x[kTileBatch], d[kTileBatch];
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      const bool inside = row < at.end;
      x[b] = LoadOptionalPiece<kWidth>(inside ? RowAt<T>(args.x, row, at.column) : nullptr);
      d[b] = LoadOptionalPiece<kWidth>(inside ? RowAt<T>(args.dy, row, at.column) : nullptr);
    }
#pragma unroll
    for (int b = 0; b < kTileBatch; ++b) {
      const int64_t row = r + b * kTileRows;
      if (row >= at.end) continue;
      uint32_t kept = ~0u;
      if constexpr (!std::is_same_v<A, ReluFromOutput>) {
        kept = KeptOfPiece<kWidth>(args.dropout, row, args.columns, at.column);
      }
      float dx[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float dropped = ApplyDropout(d[b][i], kept, i, args.dropout.scale);
        dx[i] = A::Gradient(x[b][i] + bias[i], dropped);
        sums[0][i] += dx[i];
      }
      StorePiece(RowAt<T>(args.dx, row, at.column), MakePiece<T>(dx));
    }
  }
  if (params.partials != nullptr) StoreTileSums<1>(sums, args.columns, params.partials);
}

// Calls body.operator()<A>() with the functions of the activation.
template <typename Body>
void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kRelu:
      return body.template operator()<ReluFunction>();
    case Activation::kGeluErf:
      return body.template operator()<GeluErfFunction>();
    case Activation::kGeluTanh:
      return body.template operator()<GeluTanhFunction>();
    case Activation::kTanh:
      return body.template operator()<TanhFunction>();
  }
}

template <typename T, typename A>
void RunBackward(const BiasActivationBackwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.dy, args.x, args.dx, VectorOf(args.bias)});
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  TiledArgs<BiasActivationBackwardArgs> params = {.args = args,
                                                  .rows_per_block = tiles.rows_per_block};
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
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  const TiledArgs<BiasActivationForwardArgs> params = {.args = args,
                                                       .rows_per_block = tiles.rows_per_block};
  WithActivation(args.activation, [&]<typename A>() {
    WithWidth(in_pieces, [&](auto width) {
      Launch(BiasActivationForwardTileKernel<T, width.value, A>, tiles.Shape(), params, stream);
    });
  });
}

template <typename T>
void BiasActivationBackwardKernelCuda(const BiasActivationBackwardArgs& args, Stream& stream) {
  WithActivation(args.activation, [&]<typename A>() { RunBackward<T, A>(args, stream); });
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
