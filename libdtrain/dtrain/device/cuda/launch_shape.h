// launch_shape.h - how many blocks of how many threads, and the way from a kernel to the device.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_LAUNCH_SHAPE_H_
#define DTRAIN_DEVICE_CUDA_LAUNCH_SHAPE_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/device/stream.h"

namespace dtrain {

struct LaunchShape {
  struct Extent {
    int64_t x = 1, y = 1, z = 1;
  };
  Extent blocks = {1, 1, 1};
  int threads = 128;        // of a block, a multiple of 32
  size_t shared_bytes = 0;  // DynamicShared()
};

namespace internal {
// launch.cc: starts `kernel`, whose one parameter lies at `params`. Throws CudaError. A grid
// without blocks starts nothing.
void LaunchKernel(const void* kernel, const LaunchShape& shape, void* params, Stream& stream);
}  // namespace internal

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_LAUNCH_SHAPE_H_
