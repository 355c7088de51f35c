// dropout.cuh - the dropout mask of eight neighbouring elements, as ops/dropout.h defines it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_DROPOUT_CUH_
#define DTRAIN_DEVICE_CUDA_DROPOUT_CUH_

#include "dtrain/base/random.h"
#include "dtrain/device/cuda/launch.cuh"

namespace dtrain {

// `key` with the step that lies at `step` where that is not null: a recorded launch then draws anew
// each time it is repeated.
__device__ __forceinline__ RandomKey WithStep(RandomKey key, const uint32_t* step) {
  if (step != nullptr) key.step = __ldg(step);
  return key;
}
// The same in place, for kernels that have no register to spare: the result of a reduction over the
// warp lies in its uniform registers, as kernel arguments do. By all 32 lanes.
__device__ __forceinline__ void TakeStep(RandomKey& key, const uint32_t* step) {
  if (step == nullptr) return;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  key.step = __reduce_or_sync(kFullWarp, __ldg(step));
#else
  key.step = __ldg(step);
#endif
}

// What row r counts as; `numbers` may be null.
__device__ __forceinline__ int64_t RowNumber(const int32_t* numbers, int64_t r) {
  return numbers == nullptr ? r : int64_t{__ldg(numbers + r)};
}

// Bit i is set where element 8 * group + i is kept.
__device__ __forceinline__ uint32_t KeptElements(const RandomKey& key, uint32_t threshold,
                                                 uint64_t group) {
  const std::array<uint32_t, 4> words = Philox(key, group);
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = (words[i / 2] >> (i % 2 * 16)) & 0xffffu;
    kept |= static_cast<uint32_t>(bits >= threshold) << i;
  }
  return kept;
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_DROPOUT_CUH_
