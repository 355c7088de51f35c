// shared_library.cc - the places that are tried, in order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/shared_library.h"

#include <dlfcn.h>

#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {

void* OpenSharedLibrary(const std::string& name, const char* what) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string first_error = dlerror();
  const std::string path = "/usr/local/cuda/lib64/" + name;
  if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw CudaError(std::string(what) + " cannot be loaded (" + first_error +
                  "); install the CUDA toolkit's libraries or put their folder into "
                  "LD_LIBRARY_PATH");
}

}  // namespace dtrain::cuda
