// cast_cuda.cu - casts, elementwise sums, and gathering and scattering of rows on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "dtrain/ops/internal/cast_kernel.h"
#include "dtrain/ops/internal/row_pieces.cuh"

namespace dtrain {
namespace {

constexpr int kBlendThreads = 256;

// y = x_factor x or, with kAdds, y = y_factor y + x_factor x.
// Geometry: x blocks over the columns, y blocks over the rows; both loop if there is more. Traffic:
//   x once, y once or twice.
// Fast because: eight elements per thread and turn in 16-byte accesses; few registers, so that a
//   multiprocessor holds 2048 threads, each with 16 to 64 bytes in flight.
template <typename T, typename U, int kWidth, bool kAdds>
__global__ void __launch_bounds__(kBlendThreads) BlendRowsKernel(BlendRowsArgs args) {
  float x_factor = args.x_factor;
  float y_factor = args.y_factor;
  if constexpr (kAdds) {
    if (args.decay != nullptr) {
      y_factor = *args.decay;
      x_factor = 1.0f - y_factor;
      if (y_factor == 1.0f) return;
    }
  }
  const int64_t step = int64_t{gridDim.x} * kBlendThreads * kWidth;
  for (int64_t r = blockIdx.y; r < args.rows; r += gridDim.y) {
    int64_t c = (int64_t{blockIdx.x} * kBlendThreads + threadIdx.x) * kWidth;
    for (; c + kWidth <= args.columns; c += step) {
      const auto x = LoadPiece<kWidth>(RowAt<T>(args.x, r, c));
      U* const target = RowAt<U>(args.y, r, c);
      float y[kWidth];
      if constexpr (kAdds) {
        const auto before = LoadPiece<kWidth>(target);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = before[i] * y_factor + x[i] * x_factor;
      } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = x[i] * x_factor;
      }
      StorePiece(target, MakePiece<U>(y));
    }
    // The last columns, if they do not fill a piece.
    for (; c < args.columns; ++c) {
      U* const target = RowAt<U>(args.y, r, c);
      float y = ToFloat(*RowAt<T>(args.x, r, c)) * x_factor;
      if constexpr (kAdds) y = ToFloat(*target) * y_factor + y;
      *target = FromFloat<U>(y);
    }
  }
}

template <typename T, typename U, bool kAdds>
void LaunchBlend(const BlendRowsArgs& args, Stream& stream) {
  constexpr int64_t kMaxBlocks = 8 * 132;  // all resident at once on an H200
  // The last piece of a row may be short, so only the starts of the rows must be aligned.
  const bool in_pieces = InPieces<T>(kPieceWidth, {args.x}) && InPieces<U>(kPieceWidth, {args.y});
  WithWidth(in_pieces, [&](auto width) {
    const int64_t across =
        std::min(kMaxBlocks, CeilDivide(args.columns, kBlendThreads * width.value));
    const int64_t down =
        std::min(args.rows, std::max<int64_t>(1, kMaxBlocks / std::max<int64_t>(1, across)));
    Launch(BlendRowsKernel<T, U, width.value, kAdds>,
           {.blocks = {across, down}, .threads = kBlendThreads}, args, stream);
  });
}

constexpr int kZeroThreads = 256;
constexpr int64_t kZeroBlocks = 4;  // per range

// x[begin[i] + j] = 0.
// Geometry: blockIdx.x is the range; kZeroBlocks blocks share its elements.
// Traffic: each element is written once.
// Time: that of a launch, as ranges are small. One launch serves all of them, where a memset would
//   take a launch each.
__global__ void __launch_bounds__(kZeroThreads) ZeroRangesKernel(ZeroRangesArgs args) {
  float* const x = args.x + args.begin[blockIdx.x];
  const int elements = args.elements[blockIdx.x];
  for (int i = static_cast<int>(blockIdx.y) * kZeroThreads + static_cast<int>(threadIdx.x);
       i < elements; i += static_cast<int>(gridDim.y) * kZeroThreads) {
    x[i] = 0.0F;
  }
}

constexpr int kCopyThreads = 128;
constexpr int kCopyWarps = kCopyThreads / kWarpSize;

struct Bytes16 {
  uint64_t halves[2];
};

// out[i] = x[rows[i]], copied in units of U; row_bytes is a multiple of its size. Geometry: a warp
// per row. Traffic: each row is read once and written once.
template <typename U>
__global__ void __launch_bounds__(kCopyThreads) GatherRowsKernel(GatherRowsArgs args) {
  const int64_t i = int64_t{blockIdx.x} * kCopyWarps + threadIdx.x / kWarpSize;
  if (i >= args.n) return;
  const int64_t x_stride = args.x.stride * args.element_bytes;
  const int64_t out_stride = args.out.stride * args.element_bytes;
  const char* const from = static_cast<const char*>(args.x.data) + args.rows[i] * x_stride;
  char* const to = static_cast<char*>(args.out.data) + i * out_stride;
  constexpr int64_t kStep = int64_t{kWarpSize} * sizeof(U);
  for (int64_t at = int64_t{threadIdx.x % kWarpSize} * sizeof(U); at < args.row_bytes;
       at += kStep) {
    StoreGlobal(reinterpret_cast<U*>(to + at),
                LoadPacked<1>(reinterpret_cast<const U*>(from + at)));
  }
}

// out[rows[i]] += x[i], in the order of i.
// Geometry: a warp for each i and each tile of 32 pieces of columns. The warp of a row's first i
//   also adds all later ones. So no two warps write the same row, and the order is fixed without
//   atomics.
// Traffic: x once, the written rows of out once, and `rows` once per warp from the L2 cache: n * n
//   * 4 / 32 bytes. This is little for the few thousand rows this op is meant for.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kCopyThreads) ScatterAddRowsKernel(ScatterAddRowsArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t i = int64_t{blockIdx.x} * kCopyWarps + threadIdx.x / kWarpSize;
  if (i >= args.n) return;  // true for the whole warp
  const int32_t row = args.rows[i];
  bool earlier = false;
  for (int64_t j = lane; j < i; j += kWarpSize) earlier = earlier || args.rows[j] == row;
  if (__any_sync(kFullWarp, earlier)) return;
  const int64_t column = (int64_t{blockIdx.y} * kWarpSize + lane) * kWidth;
  const bool inside = column < args.column_end;
  T* const target = RowAt<T>(args.out, row, column);
  auto sum = LoadOptionalPiece<kWidth>(inside ? target : nullptr);
  for (int64_t first = i; first < args.n; first += kWarpSize) {
    const int64_t j = first + lane;
    unsigned same = __ballot_sync(kFullWarp, j < args.n && args.rows[j] == row);
    for (; same != 0; same &= same - 1) {
      const int64_t source = first + __ffs(static_cast<int>(same)) - 1;
      if (!inside) continue;
      const auto x = LoadPiece<kWidth>(RowAt<T>(args.x, source, column));
      float value[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) value[e] = sum[e] + x[e];
      sum = MakePiece<T>(value);  // rounded after each addition, as if added in memory
    }
  }
  if (inside) StorePiece(target, sum);
}

}  // namespace

template <typename T, typename U>
void CastRowsKernelCuda(const BlendRowsArgs& args, Stream& stream) {
  LaunchBlend<T, U, false>(args, stream);
}

template <typename T>
void BlendRowsKernelCuda(const BlendRowsArgs& args, Stream& stream) {
  LaunchBlend<T, T, true>(args, stream);
}

void ZeroRangesKernelCuda(const ZeroRangesArgs& args, Stream& stream) {
  Launch(ZeroRangesKernel, {.blocks = {args.count, kZeroBlocks}, .threads = kZeroThreads}, args,
         stream);
}

void GatherRowsKernelCuda(const GatherRowsArgs& args, Stream& stream) {
  // Selects the widest unit that divides all row sizes, strides and addresses.
  const uint64_t all = static_cast<uint64_t>(args.row_bytes) |
                       static_cast<uint64_t>(args.x.stride * args.element_bytes) |
                       static_cast<uint64_t>(args.out.stride * args.element_bytes) |
                       reinterpret_cast<uintptr_t>(args.x.data) |
                       reinterpret_cast<uintptr_t>(args.out.data);
  const LaunchShape shape = {.blocks = {CeilDivide(args.n, kCopyWarps)}, .threads = kCopyThreads};
  if (all % 16 == 0) {
    Launch(GatherRowsKernel<Bytes16>, shape, args, stream);
  } else if (all % 4 == 0) {
    Launch(GatherRowsKernel<uint32_t>, shape, args, stream);
  } else if (all % 2 == 0) {
    Launch(GatherRowsKernel<uint16_t>, shape, args, stream);
  } else {
    Launch(GatherRowsKernel<uint8_t>, shape, args, stream);
  }
}

template <typename T>
void ScatterAddRowsKernelCuda(const ScatterAddRowsArgs& args, Stream& stream) {
  WithWidth(InPieces<T>(args.column_end, {args.x, args.out}), [&](auto width) {
    const int64_t tiles = CeilDivide(args.column_end, kWarpSize * width.value);
    Launch(ScatterAddRowsKernel<T, width.value>,
           {.blocks = {CeilDivide(args.n, kCopyWarps), tiles}, .threads = kCopyThreads}, args,
           stream);
  });
}

template void CastRowsKernelCuda<float, float>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<float, BFloat16>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<float, Float16>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<BFloat16, float>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<BFloat16, BFloat16>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<BFloat16, Float16>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<Float16, float>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<Float16, BFloat16>(const BlendRowsArgs&, Stream&);
template void CastRowsKernelCuda<Float16, Float16>(const BlendRowsArgs&, Stream&);
template void BlendRowsKernelCuda<float>(const BlendRowsArgs&, Stream&);
template void BlendRowsKernelCuda<BFloat16>(const BlendRowsArgs&, Stream&);
template void BlendRowsKernelCuda<Float16>(const BlendRowsArgs&, Stream&);
template void ScatterAddRowsKernelCuda<float>(const ScatterAddRowsArgs&, Stream&);
template void ScatterAddRowsKernelCuda<BFloat16>(const ScatterAddRowsArgs&, Stream&);
template void ScatterAddRowsKernelCuda<Float16>(const ScatterAddRowsArgs&, Stream&);

}  // namespace dtrain
