// shared_library.h - finds one of CUDA's libraries on this machine and loads it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_
#define DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_

#include <string>

namespace dtrain::cuda {

// dlopen()'s handle of "libcublasLt.so.13": in the loader's paths, or in the toolkit's usual
// folder; null with the loader's words in `error` where it is in neither. Never unloaded.
void* FindSharedLibrary(const std::string& name, std::string& error);

// The same, or CudaError with `what` ("cuBLASLt") and the loader's words.
void* OpenSharedLibrary(const std::string& name, const char* what);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_
