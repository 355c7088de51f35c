// rotary_cuda.cu - turns heads on the GPU, in place.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/ops/internal/rotary_kernel.h"
#include "dtrain/ops/internal/row_pieces.cuh"

namespace dtrain {
namespace {

constexpr int kRotaryThreads = 256;

// (a, b) = (a cos - b sin, b cos + a sin) for a and b half a head apart.
// Geometry: a thread has kWidth columns of a and the kWidth of b that belong to them. Neighbouring
//   threads have neighbouring columns, then the next head, then the next row.
// Traffic: reads and writes x (4 bytes per element of a 16-bit type). A row's cosines and sines are
//   the same for all of its heads and come from the L1 or L2 cache.
// Fast because: 16-byte accesses, two of them in flight per thread, and so few registers that all
//   threads of a multiprocessor are resident.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kRotaryThreads) RotaryPieceKernel(RotaryArgs args) {
  const unsigned half = static_cast<unsigned>(args.head_dim) / 2;
  const unsigned head_pieces = half / kWidth;
  const unsigned row_pieces = static_cast<unsigned>(args.columns) / (2 * kWidth);
  const unsigned piece = blockIdx.x * kRotaryThreads + threadIdx.x;
  const unsigned r = piece / row_pieces;
  if (r >= static_cast<unsigned>(args.row_end)) return;
  const unsigned of_row = piece - r * row_pieces;
  const unsigned head = of_row / head_pieces;
  const unsigned k = (of_row - head * head_pieces) * kWidth;
  const float* const cosines = args.table + __ldg(args.position_ids + r) * args.head_dim + k;
  T* const first = RowAt<T>(args.x, r, int64_t{head} * args.head_dim + k);
  const auto a = LoadPiece<kWidth>(static_cast<const T*>(first));
  const auto b = LoadPiece<kWidth>(static_cast<const T*>(first + half));
  const auto cosine = LoadPiece<kWidth>(cosines);
  const auto sine = LoadPiece<kWidth>(cosines + half);
  float turned_a[kWidth], turned_b[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float s = sine[i] * args.direction;
    turned_a[i] = a[i] * cosine[i] - b[i] * s;
    turned_b[i] = b[i] * cosine[i] + a[i] * s;
  }
  StorePiece(first, MakePiece<T>(turned_a));
  StorePiece(first + half, MakePiece<T>(turned_b));
}

}  // namespace

template <typename T>
void RotaryKernelCuda(const RotaryArgs& args, Stream& stream) {
  const int64_t half = args.head_dim / 2;
  const bool in_pieces =
      InPieces<T>(half, {args.x}) && InPieces<float>(half, {VectorOf(args.table)});
  WithWidth(in_pieces, [&](auto width) {
    const int64_t pieces = args.row_end * (args.columns / (2 * width.value));
    DT_CHECK_LE(pieces, int64_t{std::numeric_limits<int32_t>::max()})
        << "rotary embeddings turn fewer than 2^31 pieces of a row at a time";
    Launch(RotaryPieceKernel<T, width.value>,
           {.blocks = {CeilDivide(pieces, kRotaryThreads)}, .threads = kRotaryThreads}, args,
           stream);
  });
}

template void RotaryKernelCuda<float>(const RotaryArgs&, Stream&);
template void RotaryKernelCuda<BFloat16>(const RotaryArgs&, Stream&);
template void RotaryKernelCuda<Float16>(const RotaryArgs&, Stream&);

}  // namespace dtrain
