// launch.cc - starts a kernel on a stream of a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <array>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/launch_shape.h"

namespace dtrain::internal {
namespace {

// Shared memory that a block gets without asking CUDA for more.
constexpr size_t kDefaultSharedBytes = 48 << 10;

}  // namespace

void LaunchKernel(const void* kernel, const LaunchShape& shape, void* params, Stream& stream) {
  const auto& [x, y, z] = shape.blocks;
  if (x == 0 || y == 0 || z == 0) return;
  DT_CHECK(x > 0 && x <= 0x7fffffff && y > 0 && y <= 65535 && z > 0 && z <= 65535)
      << "a grid of " << x << " x " << y << " x " << z << " blocks";
  DT_CHECK(shape.threads > 0 && shape.threads % 32 == 0 && shape.threads <= 1024);
  DT_CHECK_CUDA(cudaSetDevice(stream.device().index));
  if (shape.shared_bytes > kDefaultSharedBytes) {
    DT_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shape.shared_bytes)));
  }
  std::array<void*, 1> arguments = {params};
  DT_CHECK_CUDA(cudaLaunchKernel(
      kernel, dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)),
      dim3(static_cast<unsigned>(shape.threads)), arguments.data(), shape.shared_bytes,
      static_cast<cudaStream_t>(stream.handle())));
}

}  // namespace dtrain::internal
