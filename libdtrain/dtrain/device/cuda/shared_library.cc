// shared_library.cc - the places where CUDA's libraries are searched, in order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/shared_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <filesystem>
#include <system_error>

#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {
namespace {

// Where `pip install` puts NVIDIA's packages, if it has installed this program, too.
void* FindInPythonPackages(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return nullptr;
  const std::string prefix = program.parent_path().parent_path();
  const std::string pattern = prefix + "/lib/python3*/*-packages/nvidia/*/lib/" + name;
  glob_t found{};
  void* library = nullptr;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && library == nullptr; ++i) {
      library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    }
  }
  globfree(&found);
  return library;
}

}  // namespace

void* FindSharedLibrary(const std::string& name, std::string& error) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  error = dlerror();
  const std::string in_toolkit = "/usr/local/cuda/lib64/" + name;
  if (void* const library = dlopen(in_toolkit.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return FindInPythonPackages(name);
}

void* OpenSharedLibrary(const std::string& name, const char* what) {
  std::string error;
  if (void* const library = FindSharedLibrary(name, error)) return library;
  throw CudaError(std::string(what) + " cannot be loaded (" + error +
                  "); install the CUDA toolkit's libraries or put their folder into "
                  "LD_LIBRARY_PATH");
}

}  // namespace dtrain::cuda
