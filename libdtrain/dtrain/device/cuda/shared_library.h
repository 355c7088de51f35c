// shared_library.h - finds one of CUDA's shared libraries on this machine and loads it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_
#define DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_

#include <string>

namespace dtrain::cuda {

// Returns the dlopen() handle of a library such as "libcublasLt.so.13". It is searched in the
// loader's paths, in the toolkit's usual folder, and among NVIDIA's Python packages that are
// installed where this program is. If it is in none of them, returns null and sets `error` to the
// loader's message. The library is never unloaded.
void* FindSharedLibrary(const std::string& name, std::string& error);

// Like FindSharedLibrary(), but throws CudaError with `what` ("cuBLASLt") and the loader's message.
void* OpenSharedLibrary(const std::string& name, const char* what);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_SHARED_LIBRARY_H_
