// reduce.cuh - sums and maxima over a warp and over a block, in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_REDUCE_CUH_
#define DTRAIN_DEVICE_CUDA_REDUCE_CUH_

#include "dtrain/device/cuda/launch.cuh"

namespace dtrain {

struct AddOp {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOp {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Reduces over a warp; all 32 lanes take part and get the result. It is a butterfly: for
// commutative ops all lanes get the same bits.
template <typename T, typename Op>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    value = op(value, __shfl_xor_sync(kFullWarp, value, mask));
  }
  return value;
}
template <typename T>
__device__ __forceinline__ T WarpSum(T value) {
  return WarpReduce(value, AddOp{});
}
template <typename T>
__device__ __forceinline__ T WarpMax(T value) {
  return WarpReduce(value, MaxOp{});
}

// Reduces over a block; all threads take part and get the result. The block size is a multiple of
// 32, at most 1024. `neutral` must not change the other operand of `op`.
template <typename T, typename Op>
__device__ __forceinline__ T BlockReduce(T value, Op op, T neutral) {
  struct Partials {
    T of_warp[kWarpSize];
  };
  Partials& partials = SharedStorage<Partials>();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = WarpReduce(value, op);
  __syncthreads();  // other threads may still read the results of an earlier call
  if (lane == 0) partials.of_warp[warp] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  return WarpReduce(lane < warps ? partials.of_warp[lane] : neutral, op);
}
template <typename T>
__device__ __forceinline__ T BlockSum(T value) {
  return BlockReduce(value, AddOp{}, T(0));
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_REDUCE_CUH_
