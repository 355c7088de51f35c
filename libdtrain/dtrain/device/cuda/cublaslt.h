// cublaslt.h - the functions of cuBLASLt the library calls, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
//
// Linking the library would cost every CPU process 94 MB and 0.1 s, and refuse to start where it is
// absent.
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

  // Throws CudaError where the library is absent or older than the headers it was built with; names
  // what was tried.
  static const CublasLt& Get();

  // CudaError with the library's text unless `status` is success.
  void Check(cublasStatus_t status, const char* call) const;
};

// One per device and process, for all threads.
cublasLtHandle_t CublasLtHandle(const Device& device);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_CUBLASLT_H_
