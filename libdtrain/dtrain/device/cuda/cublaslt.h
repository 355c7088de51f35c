// cublaslt.h - the cuBLASLt functions this library calls, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
//
// Linking cuBLASLt would cost every CPU process 94 MB and 0.1 s, and programs would not start on
// machines without it.
#ifndef DTRAIN_DEVICE_CUDA_CUBLASLT_H_
#define DTRAIN_DEVICE_CUDA_CUBLASLT_H_

#include <cublasLt.h>

#include "dtrain/device/device.h"

namespace dtrain::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtGetVersion) GetVersion;
  decltype(&cublasLtGetStatusString) GetStatusString;
  decltype(&cublasLtMatmul) Matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;

  // Loads the library on the first call. Throws CudaError, which names the places that were tried,
  // if the library is missing or older than the headers used for this build.
  static const CublasLt& Get();

  // Throws CudaError with the library's own text unless `status` is success.
  void Check(cublasStatus_t status, const char* call) const;
};

// The handle of a device, created once per process and shared by all threads.
cublasLtHandle_t CublasLtHandle(const Device& device);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_CUBLASLT_H_
