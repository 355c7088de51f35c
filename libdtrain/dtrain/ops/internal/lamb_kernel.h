// lamb_kernel.h - arguments of the kernels behind ops/lamb.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/ops/lamb.h"

namespace dtrain {

// Elements of a chunk: its four arrays fit into the caches of a core.
inline constexpr int64_t kLambChunk = 8192;

// |u|^2 of a tensor whose gradients have been 0 for so long that its moments vanish: it moves no
// more, where |w| / |u| would overflow.
inline constexpr double kSmallestSquares = 1e-38;

struct LambChunk {
  int64_t begin, end, segment;
};
struct LambSegmentInfo {
  int64_t first_chunk, chunks, adapts;
};

// T is the type of `copy`, which may be null.
struct LambArgs {
  const AdamStep* step = nullptr;  // in the device's memory
  const LambChunk* chunks = nullptr;
  const LambSegmentInfo* segments = nullptr;
  const float* decays = nullptr;
  double* squares = nullptr;
  float* ratios = nullptr;
  int64_t num_chunks = 0, num_segments = 0;
  float* gradients = nullptr;
  float* weights = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  void* copy = nullptr;
  LambOptions options{};
  int64_t chunk = 0;  // on the CPU the one to work on
};

// The moments and u of a chunk, and its sums of squares.
DT_DECLARE_CPU_KERNEL(LambMomentsKernel, LambArgs);
// The weights of a chunk, its segment's ratio being known.
DT_DECLARE_CPU_KERNEL(LambWeightsKernel, LambArgs);
// All of it.
template <typename T>
void LambKernelCuda(const LambArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_
