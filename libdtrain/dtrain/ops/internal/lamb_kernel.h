// lamb_kernel.h - arguments of the kernels that implement ops/lamb.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/ops/lamb.h"

namespace dtrain {

// Number of elements in a chunk, chosen so that its four arrays fit into a core's caches.
inline constexpr int64_t kLambChunk = 8192;

// If |u|^2 of a tensor is below this, its gradients have been 0 for so long that its moments
// vanish. The tensor is then not changed, because |w| / |u| would overflow.
inline constexpr double kSmallestSquares = 1e-38;

// moments: the index of its first element in m and v.
struct LambChunk {
  int64_t begin, end, segment, moments;
};
struct LambSegmentInfo {
  int64_t first_chunk, chunks, adapts;
};

// T is the type of `copy`, which may be null.
struct LambArgs {
  const AdamStep* step = nullptr;  // in device memory
  const LambChunk* chunks = nullptr;
  const LambSegmentInfo* segments = nullptr;
  const float* decays = nullptr;
  double* squares = nullptr;  // by chunk
  double* sums = nullptr;     // by segment
  float* ratios = nullptr;
  int64_t num_chunks = 0, num_segments = 0;
  bool has_even_moments = true;  // m and v are as aligned as the other arenas
  float* gradients = nullptr;
  float* weights = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  void* copy = nullptr;
  LambOptions options{};
  int64_t chunk = 0;  // the chunk to process; CPU only
};

// Computes the moments and u of a chunk, and its sums of squares.
DT_DECLARE_CPU_KERNEL(LambMomentsKernel, LambArgs);
// Updates the weights of a chunk, after its segment's ratio is known.
DT_DECLARE_CPU_KERNEL(LambWeightsKernel, LambArgs);
// The moments of all chunks and the sums of all segments; then the ratios and the weights.
void LambMomentsCuda(const LambArgs& args, Stream& stream);
template <typename T>
void LambWeightsCuda(const LambArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAMB_KERNEL_H_
