// low_rank_cuda.cu - PowerSGD's products, orthonormal factors and errors on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/distributed/internal/device_low_rank_kernel.h"

namespace dtrain {
namespace {

using internal::AddErrorsArgs;
using internal::FactorRows;
using internal::GradientUnit;
using internal::KeepErrorsArgs;
using internal::KeepFactorsArgs;
using internal::KeptFactors;
using internal::kMostFactors;
using internal::OrthonormaliseArgs;
using internal::SplitOffErrorArgs;
using internal::SpoilArgs;

constexpr int kThreads = 256;
// Blocks of an elementwise kernel: enough for every GPU, each with several elements for a thread.
constexpr int64_t kMostBlocks = 2048;

int64_t BlocksFor(int64_t elements) {
  return std::min((elements + kThreads - 1) / kThreads, kMostBlocks);
}

__device__ __forceinline__ float UnitOf(const GradientUnit& unit) {
  const double scale = unit.scale == nullptr ? 1.0 : static_cast<double>(*unit.scale);
  return static_cast<float>(scale * unit.tokens);
}

__device__ __forceinline__ bool IsFinite(double value) {
  return value - value == 0.0;  // NaN for NaN and infinity
}

// gradients += errors unit. Traffic: 12 bytes an element, which bounds it.
__global__ void __launch_bounds__(kThreads) AddErrorsKernelGpu(AddErrorsArgs args) {
  const float unit = UnitOf(args.unit);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.elements; i += step) {
    args.gradients[i] += args.errors[i] * unit;
  }
}

// The sum of a[i] b[i], the same on all threads. In double, so that no square overflows.
__device__ __forceinline__ double Dot(const float* a, const float* b, int64_t length) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return BlockSum(sum);
}

__device__ __forceinline__ void ScaleRow(float* row, int64_t length, double factor) {
  for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
    row[i] = static_cast<float>(static_cast<double>(row[i]) * factor);
  }
}

// Rows become orthonormal: each row loses its parts along all rows before it (Gram-Schmidt), twice,
//   because the first time leaves what rounding has added. The limits are those of low_rank.cc.
// Geometry: a block a matrix. Traffic: the rows come from memory once, and then from the caches,
//   4 count times each.
// Fast because: all matrices of a bucket run at once. The parts along all rows before are computed
//   together, one by each warp, so a row takes a dozen barriers, however many rows there are.
constexpr int kRowThreads = 512;
__global__ void __launch_bounds__(kRowThreads) OrthonormaliseKernelGpu(OrthonormaliseArgs args) {
  struct Storage {
    float along[kMostFactors];
  };
  Storage& storage = SharedStorage<Storage>();
  const FactorRows& factor = args.factors[blockIdx.x];
  const int64_t length = factor.length;
  float* const rows = args.rows + factor.begin;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int r = 0; r < args.count; ++r) {
    float* const row = rows + r * length;
    const double before = sqrt(Dot(row, row, length));
    if (before > 0.0 && IsFinite(before)) ScaleRow(row, length, 1.0 / before);
    for (int pass = 0; pass < 2; ++pass) {
      __syncthreads();  // of the row, each warp now reads what all threads have written
      for (int other = warp; other < r; other += kRowThreads / kWarpSize) {
        double sum = 0.0;
        for (int64_t i = lane; i < length; i += kWarpSize) {
          sum += static_cast<double>(row[i]) * static_cast<double>(rows[other * length + i]);
        }
        sum = WarpSum(sum);
        if (lane == 0) storage.along[other] = static_cast<float>(sum);
      }
      __syncthreads();
      for (int64_t i = threadIdx.x; i < length; i += kRowThreads) {
        float value = row[i];
        for (int other = 0; other < r; ++other) {
          value -= storage.along[other] * rows[other * length + i];
        }
        row[i] = value;
      }
      const double after = sqrt(Dot(row, row, length));
      const bool is_left = after > (pass == 0 ? 1e-6 : 0.5);
      for (int64_t i = threadIdx.x; i < length && !is_left; i += kRowThreads) row[i] = 0.0f;
      if (!is_left) break;
      ScaleRow(row, length, 1.0 / after);
    }
  }
}

// error = (matrix - P Q_own^T) / unit; matrix = P Q_sum^T.
// Geometry: a thread owns a column of kTileRows rows. Traffic: 12 bytes an element, and the
//   factors, a kTileRows-th of their rank for each. Fast because: a load of each Q^T serves
//   kTileRows elements, and P^T's values are the same for a warp.
constexpr int kTileRows = 8;
__global__ void __launch_bounds__(kThreads) SplitOffErrorKernelGpu(SplitOffErrorArgs args) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first = int64_t{blockIdx.y} * kTileRows;
  if (column >= args.size.columns) return;
  const float* left = args.factors.left + first;
  const float* own = args.factors.own + column;
  const float* sum = args.factors.sum + column;
  const int64_t below = args.size.rows - first;
  const int rows = below < kTileRows ? static_cast<int>(below) : kTileRows;
  float of_own[kTileRows] = {}, of_sum[kTileRows] = {};
  for (int k = 0; k < args.factors.rank; ++k) {
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      const float p = r < rows ? left[r] : 0.0f;
      of_own[r] += p * *own;
      of_sum[r] += p * *sum;
    }
    left += args.size.rows;
    own += args.size.columns;
    sum += args.size.columns;
  }
  const float error_scale = 1.0f / UnitOf(args.unit);
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    if (r >= rows) continue;
    const int64_t at = (first + r) * args.size.columns + column;
    args.error[at] = (args.matrix[at] - of_own[r]) * error_scale;
    args.matrix[at] = of_sum[r];
  }
}

// kept = next, if the step was good. Traffic: 8 bytes an element.
__global__ void __launch_bounds__(kThreads) KeepErrorsKernelGpu(KeepErrorsArgs args) {
  if (*args.broken != 0.0) return;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.elements; i += step) {
    args.kept[i] = args.next[i];
  }
}

// kept = sums / |sums| for each row, if the step was good. Geometry: a block a row.
__global__ void __launch_bounds__(kThreads) KeepFactorsKernelGpu(KeepFactorsArgs args) {
  const KeptFactors& factor = args.factors[blockIdx.y];
  const float* const sum = args.sums + factor.from + blockIdx.x * factor.length;
  float* const kept = args.kept + factor.to + blockIdx.x * factor.length;
  const double length = sqrt(Dot(sum, sum, factor.length));
  if (*args.broken != 0.0 || !(length > 0.0)) return;
  for (int64_t i = threadIdx.x; i < factor.length; i += blockDim.x) {
    kept[i] = static_cast<float>(static_cast<double>(sum[i]) / length);
  }
}

// values = NaN, if the step was not good: then it is going to be skipped.
constexpr int64_t kSpoilBlocks = 32;
__global__ void __launch_bounds__(kThreads) SpoilKernelGpu(SpoilArgs args) {
  if (*args.broken == 0.0) return;
  const FactorRows& range = args.of[blockIdx.y];
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < range.length;
       i += kSpoilBlocks * kThreads) {
    args.values[range.begin + i] = NAN;
  }
}

}  // namespace

namespace internal {

void AddErrorsKernelCuda(const AddErrorsArgs& args, Stream& stream) {
  Launch(AddErrorsKernelGpu, {.blocks = {BlocksFor(args.elements)}, .threads = kThreads}, args,
         stream);
}

void OrthonormaliseKernelCuda(const OrthonormaliseArgs& args, Stream& stream) {
  Launch(OrthonormaliseKernelGpu, {.blocks = {args.matrices}, .threads = kRowThreads}, args,
         stream);
}

void SplitOffErrorKernelCuda(const SplitOffErrorArgs& args, Stream& stream) {
  Launch(SplitOffErrorKernelGpu,
         {.blocks = {(args.size.columns + kThreads - 1) / kThreads,
                     (args.size.rows + kTileRows - 1) / kTileRows},
          .threads = kThreads},
         args, stream);
}

void KeepErrorsKernelCuda(const KeepErrorsArgs& args, Stream& stream) {
  Launch(KeepErrorsKernelGpu, {.blocks = {BlocksFor(args.elements)}, .threads = kThreads}, args,
         stream);
}

void KeepFactorsKernelCuda(const KeepFactorsArgs& args, Stream& stream) {
  Launch(KeepFactorsKernelGpu, {.blocks = {args.count, args.matrices}, .threads = kThreads}, args,
         stream);
}

void SpoilKernelCuda(const SpoilArgs& args, Stream& stream) {
  Launch(SpoilKernelGpu, {.blocks = {kSpoilBlocks, args.ranges}, .threads = kThreads}, args,
         stream);
}

}  // namespace internal
}  // namespace dtrain
