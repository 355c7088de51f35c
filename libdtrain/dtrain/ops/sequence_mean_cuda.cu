// sequence_mean_cuda.cu - means of sequences on the GPU, and their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/ops/internal/row_pieces.cuh"
#include "dtrain/ops/internal/sequence_mean_kernel.h"

namespace dtrain {
namespace {

constexpr int kMeanThreads = 128;

// The columns of a thread's piece, in the sequence of its block.
template <int kWidth>
__device__ __forceinline__ int64_t PieceColumn() {
  return (int64_t{blockIdx.y} * kMeanThreads + threadIdx.x) * kWidth;
}

// y[s, c] = (sum of x[t, c] over the rows t of sequence s) / (number of those rows)
// Geometry: blockIdx.x is the sequence, a thread has a piece of neighbouring columns and walks down
//   the sequence's rows.
// Traffic: reads x once; y is small.
// Fast because: 16-byte loads; no load waits for another, so the unrolled loop keeps several in
//   flight. Rows are added in order, without atomics, so that results repeat bit for bit.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMeanThreads) SequenceMeanKernel(SequenceMeanArgs args) {
  const int64_t c = PieceColumn<kWidth>();
  if (c >= args.columns) return;
  const int64_t first = __ldg(args.offsets + blockIdx.x);
  const int64_t last = __ldg(args.offsets + blockIdx.x + 1);
  float sums[kWidth] = {};
#pragma unroll 4
  for (int64_t t = first; t < last; ++t) {
    const auto row = LoadPiece<kWidth>(static_cast<const T*>(RowAt<T>(args.tokens, t, c)));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] += row[i];
  }
  const float share = 1.0f / static_cast<float>(last - first);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] *= share;
  StorePiece(RowAt<T>(args.means, blockIdx.x, c), MakePiece<T>(sums));
}

// dx[t, c] = dy[s, c] / (number of rows of sequence s), for each row t of s
// Geometry and accesses: as above, with stores in place of loads.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMeanThreads) SequenceMeanGradientKernel(SequenceMeanArgs args) {
  const int64_t c = PieceColumn<kWidth>();
  if (c >= args.columns) return;
  const int64_t first = __ldg(args.offsets + blockIdx.x);
  const int64_t last = __ldg(args.offsets + blockIdx.x + 1);
  const float share = 1.0f / static_cast<float>(last - first);
  const auto mean = LoadPiece<kWidth>(static_cast<const T*>(RowAt<T>(args.means, blockIdx.x, c)));
  float parts[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) parts[i] = mean[i] * share;
  const auto piece = MakePiece<T>(parts);
  for (int64_t t = first; t < last; ++t) StorePiece(RowAt<T>(args.tokens, t, c), piece);
}

template <typename T, typename Kernel>
void LaunchByWidth(const SequenceMeanArgs& args, const Kernel& kernel) {
  if (args.end == 0) return;
  WithWidth(InPieces<T>(args.columns, {args.tokens, args.means}), kernel);
}

template <int kWidth>
LaunchShape MeanGeometry(const SequenceMeanArgs& args) {
  return {.blocks = {args.end, CeilDivide(args.columns, int64_t{kMeanThreads} * kWidth)},
          .threads = kMeanThreads};
}

}  // namespace

template <typename T>
void SequenceMeanForwardCuda(const SequenceMeanArgs& args, Stream& stream) {
  LaunchByWidth<T>(args, [&](auto width) {
    Launch(SequenceMeanKernel<T, width.value>, MeanGeometry<width.value>(args), args, stream);
  });
}

template <typename T>
void SequenceMeanBackwardCuda(const SequenceMeanArgs& args, Stream& stream) {
  LaunchByWidth<T>(args, [&](auto width) {
    Launch(SequenceMeanGradientKernel<T, width.value>, MeanGeometry<width.value>(args), args,
           stream);
  });
}

template void SequenceMeanForwardCuda<float>(const SequenceMeanArgs&, Stream&);
template void SequenceMeanForwardCuda<BFloat16>(const SequenceMeanArgs&, Stream&);
template void SequenceMeanForwardCuda<Float16>(const SequenceMeanArgs&, Stream&);
template void SequenceMeanBackwardCuda<float>(const SequenceMeanArgs&, Stream&);
template void SequenceMeanBackwardCuda<BFloat16>(const SequenceMeanArgs&, Stream&);
template void SequenceMeanBackwardCuda<Float16>(const SequenceMeanArgs&, Stream&);

}  // namespace dtrain
