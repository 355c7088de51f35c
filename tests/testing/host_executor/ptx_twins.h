// ptx_twins.h - what the warp instructions of device/cuda/ptx.cuh do, done by all lanes together.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_PTX_TWINS_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_PTX_TWINS_H_

#include <cstdint>

#include "dtrain/base/dtype.h"
#include "testing/host_executor/executor.h"

namespace dtrain::host_executor {

// One lane's registers, in the layout that ptx.cuh describes.
struct Fragments {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

// mma.m16n8k`depth` with float sums, added in the order of k: depth 16, or 8 for float16.
void MultiplyFragments(const char* name, Fragments fragments, DType dtype, int depth,
                       const Location& location);

// ldmatrix. The rows that count are 16 aligned bytes of the block's shared memory.
template <int kMatrices, bool kTransposed>
void LoadMatrices(const char* name, uint32_t* r, const void* row, const Location& location);

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_PTX_TWINS_H_
