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

// One lane's part of a product of a warpgroup, as ptx.cuh describes it: a from registers, or from a
// tile.
struct WarpgroupOperands {
  float* d;  // [8 * 4]
  uint32_t a[4];
  const void *a_tile, *b_tile;
  bool is_transposed, adds;
  int step;
  DType dtype;
};

// wgmma.mma_async.m64n64k16. d is NaN from the start of a product until it is waited for. These are
// errors: a product without WarpgroupArrive() since the last wait; one after a copy that has
// arrived, but was not made visible by FenceAsyncProxy(); warps of a warpgroup that start different
// numbers of products; and a kernel's end before the wait.
void StartWarpgroupProduct(const WarpgroupOperands& operands, const Location& location);
void FenceAsyncProxy();
void WarpgroupArrive(const Location& location);
void WarpgroupCommit();
void WarpgroupWait(int groups_in_flight, const Location& location = Location::current());

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_PTX_TWINS_H_
