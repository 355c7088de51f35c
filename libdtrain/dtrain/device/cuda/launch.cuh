// launch.cuh - the language kernels are written in, and how they are started.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel takes one parameter, a struct of plain data, and is started by Launch() alone:
//
//   template <typename T>
//   __global__ void ScaleKernel(ScaleArgs args) { ... threadIdx.x, __syncthreads() ... }
//   Launch(ScaleKernel<T>, {.blocks = {rows}, .threads = 128}, args, stream);
//
// The same text is compiled by nvcc and, in test builds, by the host's compiler, where the executor
// of tests/testing/host_executor/ runs it thread for thread. So: no raw __shared__ (SharedStorage),
// no PTX outside ptx.cuh, warp operations with the full mask kFullWarp and by all 32 lanes, no
// return before a barrier, no communication between blocks of one launch.
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

// The block's one object of type T in shared memory; contents undefined when the block starts.
template <typename T>
__device__ __forceinline__ T& SharedStorage() {
  __shared__ T storage;
  return storage;
}

// The block's LaunchShape::shared_bytes, aligned to 128 bytes.
__device__ __forceinline__ unsigned char* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dtrain_dynamic_shared[];
  return dtrain_dynamic_shared;
}

#endif

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_LAUNCH_CUH_
