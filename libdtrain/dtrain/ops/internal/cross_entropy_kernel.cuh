// cross_entropy_kernel.cuh - the CUDA kernels over rows of logits, with one block per row.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_CUH_

#include <cmath>

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/cross_entropy_kernel.h"
#include "dtrain/ops/internal/row_packs.cuh"

namespace dtrain {

// For all kernels here: the largest block size, and the number of packs a thread loads at a time. A
// block has 32 KiB in flight, about as much as hides an H200's latency on one multiprocessor
// (model). Two to four blocks share a multiprocessor.
inline constexpr int kClassThreads = 512;
inline constexpr int kRowPacks = 4;

inline constexpr float kLog2E = 1.4426950408889634f;

// exp by the hardware's instruction for powers of two. exp(0) is exactly 1, exp(-infinity) is 0,
// NaN stays NaN.
__device__ __forceinline__ float ExpOf(float x) { return exp2f(x * kLog2E); }

// The value subtracted from a row's logits: its maximum, or 0 if all logits are -infinity, because
// exp(x - x) would be NaN instead of 0.
__device__ __forceinline__ float ShiftOf(float max) { return max > -INFINITY ? max : 0.0f; }

// The softmax statistics of the logits that one thread has read.
struct OnlineSoftmax {
  float max = -INFINITY;  // ignores NaN, which shows in sum_exp
  float sum_exp = 0.0f;   // sum of exp(x - ShiftOf(max))
  float sum = 0.0f;       // sum of x

  // Finds the batch's maximum first, so that the sum is rescaled once per batch.
  template <typename Pack, int kPacks>
  __device__ __forceinline__ void Add(const Pack (&packs)[kPacks]) {
    float new_max = max;
#pragma unroll
    for (int i = 0; i < kPacks * Pack::kSize; ++i) {
      new_max = fmaxf(new_max, packs[i / Pack::kSize][i % Pack::kSize]);
    }
    const float shift = ShiftOf(new_max);
    sum_exp *= ExpOf(max - shift);
    max = new_max;
#pragma unroll
    for (int i = 0; i < kPacks * Pack::kSize; ++i) {
      const float x = packs[i / Pack::kSize][i % Pack::kSize];
      sum_exp += ExpOf(x - shift);
      sum += x;
    }
  }

  // Combines the whole block; all its threads get the result.
  __device__ __forceinline__ float BlockLogSumExp() const {
    struct FloatMax {
      __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
    };
    const float shift = ShiftOf(BlockReduce(max, FloatMax{}, -INFINITY));
    return shift + logf(BlockSum(sum_exp * ExpOf(max - shift)));
  }
};

/// Cross-entropy of a row: lse = log sum_c exp x_c; nll = lse - x_y; loss = (1 - e) nll + e (lse -
/// mean x).
/// Geometry: a block of up to 512 threads per row. The last row comes first, because the product
///   that made the logits left it in the L2 cache.
/// Traffic: reads sizeof(T) * rows * classes once (online softmax, Milakov and Gimelshein 2018,
///   algorithm 3), writes 16 bytes per row. Time is at least bytes / memory bandwidth (model).
/// Deterministic: sums have a fixed order.
/// A target above the last class is a bug of the caller; it shows as a loss of NaN.
template <typename T, bool kAligned>
__global__ __launch_bounds__(kClassThreads) void CrossEntropyForwardKernelGpu(
    CrossEntropyForwardArgs args) {
  constexpr int kPack = kAligned ? kPackedSize<T> : 1;
  const int64_t r = args.row_end - 1 - static_cast<int64_t>(blockIdx.x);
  const T* const x = RowAt<T>(args.logits, r);
  const int classes = static_cast<int>(args.classes);
  // The target is loaded together with the row, and its logit during the reductions, so that the
  // block need not wait for them at its end.
  const int32_t target = args.targets[r];
  OnlineSoftmax softmax;
  ForPacks<kRowPacks, kPack>(
      x, classes, [&](const auto& packs, int /*column*/, int /*step*/) { softmax.Add(packs); });
  const float at_target = target >= 0 && target < classes ? ToFloat(x[target]) : NAN;
  const float log_sum_exp = softmax.BlockLogSumExp();
  const float sum = args.smoothing > 0.0f ? BlockSum(softmax.sum) : 0.0f;
  if (threadIdx.x != 0) return;
  args.log_sum_exp[r] = log_sum_exp;
  float nll = 0.0f;
  float loss = 0.0f;
  if (target >= 0) {
    nll = log_sum_exp - at_target;
    loss = nll;
    if (args.smoothing > 0.0f) {
      const float mean = sum / static_cast<float>(classes);
      loss = (1.0f - args.smoothing) * nll + args.smoothing * (log_sum_exp - mean);
    }
  }
  args.nll[r] = nll;
  args.loss[r] = loss;
}

/// Gradient of a row: dx_c = scale (exp(x_c - lse) - (1 - e) [c == y] - e / V), or 0 if y < 0.
/// Geometry: a block of up to 512 threads per row. The first row comes first, because forward read
///   it last.
/// Traffic: 2 * sizeof(T) * rows * classes. scale is read from device memory, so the host does not
///   wait for it. Each thread overwrites only elements it has read itself, so the gradient may
///   replace the logits.
template <typename T, bool kAligned>
__global__ __launch_bounds__(kClassThreads) void CrossEntropyBackwardKernelGpu(
    CrossEntropyBackwardArgs args) {
  constexpr int kPack = kAligned ? kPackedSize<T> : 1;
  const int64_t r = static_cast<int64_t>(blockIdx.x);
  T* const dx = RowAt<T>(args.d_logits, r);
  const int classes = static_cast<int>(args.classes);
  const int32_t target = args.targets[r];
  const float log_sum_exp = args.log_sum_exp[r];
  const float scale = *args.scale;
  const float uniform = scale * args.smoothing / static_cast<float>(classes);
  const float one = 1.0f - args.smoothing;
  ForPacks<kRowPacks, kPack>(
      RowAt<T>(args.logits, r), classes, [&](const auto& packs, int column, int step) {
        int first = column;
        for (auto pack : packs) {
#pragma unroll
          for (int j = 0; j < pack.kSize; ++j) {
            const float q = first + j == target ? one : 0.0f;
            const float d = (ExpOf(pack[j] - log_sum_exp) - q) * scale - uniform;
            pack.Set(j, target < 0 ? 0.0f : d);
          }
          StorePacked(dx + first, pack);
          first += step;
        }
      });
}

/// Log-softmax of a row: out_c = x_c - lse.
/// Geometry: a block of up to 512 threads per row. out may be the logits.
/// Traffic: (sizeof(T) + 4) * rows * classes. The second read of a row of up to about 100 KB comes
///   from the caches.
template <typename T, bool kAligned>
__global__ __launch_bounds__(kClassThreads) void LogSoftmaxKernelGpu(LogSoftmaxArgs args) {
  constexpr int kPack = kAligned ? kPackedSize<T> : 1;
  const int64_t r = static_cast<int64_t>(blockIdx.x);
  const T* const x = RowAt<T>(args.logits, r);
  float* const out = RowAt<float>(args.out, r);
  const int classes = static_cast<int>(args.classes);
  OnlineSoftmax softmax;
  ForPacks<kRowPacks, kPack>(
      x, classes, [&](const auto& packs, int /*column*/, int /*step*/) { softmax.Add(packs); });
  const float log_sum_exp = softmax.BlockLogSumExp();
  ForPacks<kRowPacks, kPack>(x, classes, [&](const auto& packs, int column, int step) {
    int first = column;
    for (const auto& pack : packs) {
      float values[pack.kSize];
#pragma unroll
      for (int j = 0; j < pack.kSize; ++j) values[j] = pack[j] - log_sum_exp;
      StoreFloats(out + first, values);
      first += step;
    }
  });
}

// Combines a logit and its column into one number. A larger logit gives a larger number; of equal
// logits, the one further left does. 0 is below all.
__device__ __forceinline__ uint64_t LogitRank(float x, int column) {
  const uint32_t bits = __float_as_uint(x == 0.0f ? 0.0f : x);  // makes -0 equal to 0
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | (0xffffffffu - static_cast<uint32_t>(column));
}

/// The column of the largest logit, the first one if several are equal. NaN is never the largest; a
/// row of only NaN gives 0. Geometry: a block of up to 512 threads per row. Traffic: sizeof(T) *
/// rows * classes.
template <typename T, bool kAligned>
__global__ __launch_bounds__(kClassThreads) void ArgMaxKernelGpu(ArgMaxArgs args) {
  constexpr int kPack = kAligned ? kPackedSize<T> : 1;
  const int64_t r = static_cast<int64_t>(blockIdx.x);
  float max = -INFINITY;
  int at = -1;
  // A thread sees its columns from left to right, so a later equal logit does not replace an
  // earlier one.
  ForPacks<kRowPacks, kPack>(RowAt<T>(args.logits, r), static_cast<int>(args.classes),
                             [&](const auto& packs, int column, int step) {
                               int first = column;
                               for (const auto& pack : packs) {
#pragma unroll
                                 for (int j = 0; j < pack.kSize; ++j) {
                                   const float x = pack[j];
                                   const bool better = x > max || (at < 0 && x == max);
                                   max = better ? x : max;
                                   at = better ? first + j : at;
                                 }
                                 first += step;
                               }
                             });
  const uint64_t best =
      BlockReduce(at < 0 ? uint64_t{0} : LogitRank(max, at), MaxOp{}, uint64_t{0});
  if (threadIdx.x == 0) {
    args.ids[r] = best == 0 ? 0 : static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(best));
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_CUH_
