// shared_library.cc - the places where CUDA's libraries are searched, in order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/shared_library.h"

#include <dlfcn.h>

#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {

void* FindSharedLibrary(const std::string& name, std::string& error) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  error = dlerror();
  return dlopen(("/usr/local/cuda/lib64/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* OpenSharedLibrary(const std::string& name, const char* what) {
  std::string error;
  if (void* const library = FindSharedLibrary(name, error)) return library;
  throw CudaError(std::string(what) + " cannot be loaded (" + error +
                  "); install the CUDA toolkit's libraries or put their folder into "
                  "LD_LIBRARY_PATH");
}

}  // namespace dtrain::cuda
