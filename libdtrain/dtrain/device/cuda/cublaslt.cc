// cublaslt.cc - finds the cuBLASLt library on this machine and its functions.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/cublaslt.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>

#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/shared_library.h"

namespace dtrain::cuda {
namespace {

template <typename Function>
void Load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw CudaError(std::string("cuBLASLt has no ") + name);
}

CublasLt LoadAll() {
  // Only the version of the headers will do, because this code fills that version's structs.
  void* const library =
      OpenSharedLibrary("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), "cuBLASLt");
  CublasLt lt{};
  Load(library, "cublasLtCreate", lt.Create);
  Load(library, "cublasLtGetVersion", lt.GetVersion);
  Load(library, "cublasLtGetStatusString", lt.GetStatusString);
  Load(library, "cublasLtMatmul", lt.Matmul);
  Load(library, "cublasLtMatmulAlgoGetHeuristic", lt.MatmulAlgoGetHeuristic);
  Load(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.MatmulAlgoConfigGetAttribute);
  Load(library, "cublasLtMatmulDescCreate", lt.MatmulDescCreate);
  Load(library, "cublasLtMatmulDescDestroy", lt.MatmulDescDestroy);
  Load(library, "cublasLtMatmulDescSetAttribute", lt.MatmulDescSetAttribute);
  Load(library, "cublasLtMatrixLayoutCreate", lt.MatrixLayoutCreate);
  Load(library, "cublasLtMatrixLayoutDestroy", lt.MatrixLayoutDestroy);
  Load(library, "cublasLtMatrixLayoutSetAttribute", lt.MatrixLayoutSetAttribute);
  Load(library, "cublasLtMatmulPreferenceCreate", lt.MatmulPreferenceCreate);
  Load(library, "cublasLtMatmulPreferenceDestroy", lt.MatmulPreferenceDestroy);
  Load(library, "cublasLtMatmulPreferenceSetAttribute", lt.MatmulPreferenceSetAttribute);
  return lt;
}

}  // namespace

const CublasLt& CublasLt::Get() {
  static const CublasLt lt = LoadAll();
  return lt;
}

void CublasLt::Check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(call) + ": " + GetStatusString(status));
}

cublasLtHandle_t CublasLtHandle(const Device& device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::scoped_lock lock(mutex);
  cublasLtHandle_t& handle = handles[device.index];
  if (handle == nullptr) {
    DT_CHECK_CUDA(cudaSetDevice(device.index));
    const CublasLt& lt = CublasLt::Get();
    lt.Check(lt.Create(&handle), "cublasLtCreate");
  }
  return handle;
}

}  // namespace dtrain::cuda
