// launch_shape.h - the number of blocks and threads of a kernel launch.
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
  int threads = 128;        // threads per block, a multiple of 32
  size_t shared_bytes = 0;  // size of DynamicShared()
};

namespace internal {
// Starts `kernel`, whose only parameter is at `params`. A grid without blocks starts nothing.
// Throws CudaError. Implemented in launch.cc.
void LaunchKernel(const void* kernel, const LaunchShape& shape, void* params, Stream& stream);
}  // namespace internal

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_LAUNCH_SHAPE_H_
