// check.h - DT_CHECK_CUDA(call) throws CudaError with CUDA's own text if the call fails.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_CHECK_H_
#define DTRAIN_DEVICE_CUDA_CHECK_H_

#include <cuda_runtime_api.h>

#include <string>

#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {

inline void Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw CudaError(std::string(call) + ": " + cudaGetErrorName(error) + ", " +
                  cudaGetErrorString(error));
}

}  // namespace dtrain::cuda

#define DT_CHECK_CUDA(call) ::dtrain::cuda::Check((call), #call)

#endif  // DTRAIN_DEVICE_CUDA_CHECK_H_
