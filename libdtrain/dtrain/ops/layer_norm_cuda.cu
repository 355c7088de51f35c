// layer_norm_cuda.cu - selects layer norm's kernel by the width and alignment of the rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/layer_norm_backward_kernel.cuh"
#include "dtrain/ops/internal/layer_norm_column_kernel.cuh"
#include "dtrain/ops/internal/layer_norm_forward_kernel.cuh"
#include "dtrain/ops/internal/layer_norm_kernel.h"

namespace dtrain {
namespace {

// Calls body(chunks, fused) with integral constants.
template <typename Body>
void WithRowShape(int64_t columns, bool fused, const Body& body) {
  const auto with_chunks = [&](auto is_fused) {
    switch (CeilDivide(columns, kChunkColumns)) {
      case 1:
        return body(std::integral_constant<int, 1>{}, is_fused);
      case 2:
        return body(std::integral_constant<int, 2>{}, is_fused);
      case 3:
        return body(std::integral_constant<int, 3>{}, is_fused);
      default:
        return body(std::integral_constant<int, kMaxChunks>{}, is_fused);
    }
  };
  if (fused) {
    with_chunks(std::true_type{});
  } else {
    with_chunks(std::false_type{});
  }
}

// Number of threads of a block that handles one row: four pieces per thread if there are enough.
int BlockThreads(int64_t columns, int width) {
  const int64_t warps = CeilDivide(columns, int64_t{4} * width * kWarpSize);
  return static_cast<int>(std::clamp<int64_t>(warps, 1, 32)) * kWarpSize;
}

// Number of blocks of kRowThreads that an H200 can hold at once, limited by registers. It is fixed,
// so that the column sums are the same on every GPU.
constexpr int64_t kForwardBlocks = 8 * 132;
constexpr int64_t kBackwardBlocks = 6 * 132;

// The same for the column kernel. A block has four turns at least, which pay for its sums; all
// blocks have the same number of turns.
int64_t ColumnKernelBlocks(int64_t rows, int rows_per_turn, int warps) {
  constexpr int64_t kLeastTurns = 4;
  const int64_t all_turns = CeilDivide(rows, rows_per_turn);
  const int64_t turns =
      std::max(kLeastTurns, CeilDivide(all_turns, int64_t{132} * ColumnBlocks(warps)));
  return CeilDivide(all_turns, turns);
}

void AddParameterSums(const LayerNormBackwardArgs& args, float* partials, int64_t blocks, int sums,
                      Stream& stream) {
  FinishColumnSums({.partials = partials,
                    .blocks = blocks,
                    .stride = sums * args.columns,
                    .columns = args.columns,
                    .count = args.d_bias == nullptr ? 2 : 3,
                    .sums = {args.d_gamma, args.d_beta, args.d_bias}},
                   stream);
}

// Rows of up to kChunkColumns columns are a warp's, wider ones a block's.
template <typename T>
void LayerNormBackwardRows(const LayerNormBackwardArgs& args, Stream& stream) {
  const bool fused = args.d_bias != nullptr || args.d_dropped.data != nullptr;
  const int sums = fused ? 3 : 2;
  const int warps = static_cast<int>(CeilDivide(args.columns, kChunkColumns));
  const int64_t blocks = warps == 1 ? WarpRowBlocks(args.row_end, kBackwardBlocks)
                                    : ColumnKernelBlocks(args.row_end, kTurnRows<T>, warps);
  const size_t bytes = static_cast<size_t>(blocks * sums * args.columns) * sizeof(float);
  const LayerNormBackwardWarpArgs params = {
      .args = args,
      .partials = reinterpret_cast<float*>(stream.Scratch(bytes, "layer norm, backward"))};
  WithRowShape(args.columns, fused, [&](auto chunks, auto is_fused) {
    if constexpr (chunks.value == 1) {
      Launch(LayerNormBackwardWarpKernel<T, chunks.value, is_fused.value>,
             {.blocks = {blocks}, .threads = kRowThreads}, params, stream);
    } else {
      Launch(LayerNormBackwardColumnKernel<T, chunks.value, is_fused.value>,
             {.blocks = {blocks}, .threads = chunks.value * kWarpSize}, params, stream);
    }
  });
  AddParameterSums(args, params.partials, blocks, sums, stream);
}

template <typename T>
void LayerNormBackwardTiles(const LayerNormBackwardArgs& args, bool in_pieces, Stream& stream) {
  const ColumnTiles tiles(args.row_end, args.columns, in_pieces ? kPieceWidth : 1);
  const int64_t partials = tiles.row_blocks * 3 * args.columns;
  const size_t bytes = static_cast<size_t>(partials + 2 * args.row_end) * sizeof(float);
  float* const scratch = reinterpret_cast<float*>(stream.Scratch(bytes, "layer norm, backward"));
  const LayerNormBackwardTileArgs params = {.args = args, .means = scratch + partials};
  const TiledArgs<LayerNormBackwardTileArgs> tiled = {
      .args = params, .rows_per_block = tiles.rows_per_block, .partials = scratch};
  WithWidth(in_pieces, [&](auto width) {
    const LaunchShape shape = {.blocks = {args.row_end},
                               .threads = BlockThreads(args.columns, width.value)};
    Launch(LayerNormBackwardMeansKernel<T, width.value>, shape, params, stream);
    Launch(LayerNormBackwardTileKernel<T, width.value>, tiles.Shape(), tiled, stream);
  });
  AddParameterSums(args, scratch, tiles.row_blocks, 3, stream);
}

}  // namespace

template <typename T>
void LayerNormForwardKernelCuda(const LayerNormForwardArgs& args, Stream& stream) {
  const bool fused = args.sum.data != nullptr;
  const bool in_pieces =
      InPieces<T>(args.columns, {args.x, args.residual, args.sum, args.y, VectorOf(args.bias),
                                 VectorOf(args.gamma), VectorOf(args.beta)});
  if (in_pieces && args.columns <= kMaxWarpColumns) {
    const LaunchShape shape = {.blocks = {WarpRowBlocks(args.row_end, kForwardBlocks)},
                               .threads = kRowThreads};
    WithRowShape(args.columns, fused, [&](auto chunks, auto is_fused) {
      constexpr int kChunks = chunks.value;
      constexpr bool kFused = is_fused.value;
      if (args.beta != nullptr) {
        Launch(LayerNormForwardWarpKernel<T, kChunks, kFused, true>, shape, args, stream);
      } else {
        Launch(LayerNormForwardWarpKernel<T, kChunks, kFused, false>, shape, args, stream);
      }
    });
    return;
  }
  WithWidth(in_pieces, [&](auto width) {
    const LaunchShape shape = {.blocks = {args.row_end},
                               .threads = BlockThreads(args.columns, width.value)};
    Launch(LayerNormForwardBlockKernel<T, width.value>, shape, args, stream);
  });
}

template <typename T>
void LayerNormBackwardKernelCuda(const LayerNormBackwardArgs& args, Stream& stream) {
  const bool in_pieces = InPieces<T>(args.columns, {args.dy, args.x, args.d_residual, args.d_x,
                                                    args.d_dropped, VectorOf(args.gamma)});
  if (in_pieces && args.columns <= kMaxWarpColumns) {
    LayerNormBackwardRows<T>(args, stream);
  } else {
    LayerNormBackwardTiles<T>(args, in_pieces, stream);
  }
}

template void LayerNormForwardKernelCuda<float>(const LayerNormForwardArgs&, Stream&);
template void LayerNormForwardKernelCuda<BFloat16>(const LayerNormForwardArgs&, Stream&);
template void LayerNormForwardKernelCuda<Float16>(const LayerNormForwardArgs&, Stream&);
template void LayerNormBackwardKernelCuda<float>(const LayerNormBackwardArgs&, Stream&);
template void LayerNormBackwardKernelCuda<BFloat16>(const LayerNormBackwardArgs&, Stream&);
template void LayerNormBackwardKernelCuda<Float16>(const LayerNormBackwardArgs&, Stream&);

}  // namespace dtrain
