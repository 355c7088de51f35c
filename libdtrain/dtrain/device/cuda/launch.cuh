// launch.cuh - how kernels are written and started.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel takes one parameter, a struct of plain data, and is started only by Launch():
//
//   template <typename T>
//   __global__ void ScaleKernel(ScaleArgs args) { ... threadIdx.x, __syncthreads() ... }
//   Launch(ScaleKernel<T>, {.blocks = {rows}, .threads = 128}, args, stream);
//
// nvcc compiles the same text as the host's compiler does in test builds, where the executor in
// tests/testing/host_executor/ runs it thread by thread. Kernels therefore follow these rules:
// - Shared memory comes from SharedStorage(), never from a raw __shared__.
// - PTX appears only in ptx.cuh.
// - Warp operations use the full mask kFullWarp, and all 32 lanes take part.
// - No thread returns before a barrier.
// - Blocks of one launch do not communicate.
#ifndef DTRAIN_DEVICE_CUDA_LAUNCH_CUH_
#define DTRAIN_DEVICE_CUDA_LAUNCH_CUH_

#include "dtrain/device/cuda/launch_shape.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "testing/host_executor/cuda_language.h"
#endif

namespace dtrain {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

#if defined(__CUDACC__)

template <typename Params>
void Launch(void (*kernel)(Params), const LaunchShape& shape, Params params, Stream& stream) {
  internal::LaunchKernel(reinterpret_cast<const void*>(kernel), shape, &params, stream);
}

// The block's single object of type T in shared memory. Its contents are undefined when the block
// starts.
template <typename T>
__device__ __forceinline__ T& SharedStorage() {
  __shared__ T storage;
  return storage;
}

// The block's dynamic shared memory of LaunchShape::shared_bytes, aligned to 1,024 bytes, as tiles
// of warpgroup products must be.
__device__ __forceinline__ unsigned char* DynamicShared() {
  extern __shared__ __align__(1024) unsigned char dtrain_dynamic_shared[];
  return dtrain_dynamic_shared;
}

#endif

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_LAUNCH_CUH_
