// dropout.cuh - the dropout mask of eight neighbouring elements, as defined in ops/dropout.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_DROPOUT_CUH_
#define DTRAIN_DEVICE_CUDA_DROPOUT_CUH_

#include "dtrain/base/random.h"
#include "dtrain/device/cuda/launch.cuh"

namespace dtrain {

// Returns `key` with its step replaced by *step unless `step` is null. A recorded launch then draws
// new numbers each time it is repeated.
__device__ __forceinline__ RandomKey WithStep(RandomKey key, const uint32_t* step) {
  if (step != nullptr) key.step = __ldg(step);
  return key;
}
// Like WithStep(), but in place, for kernels without a free register: the result of a warp-wide
// reduction stays in a uniform register, as kernel arguments do. All 32 lanes must call it.
__device__ __forceinline__ void TakeStep(RandomKey& key, const uint32_t* step) {
  if (step == nullptr) return;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  key.step = __reduce_or_sync(kFullWarp, __ldg(step));
#else
  key.step = __ldg(step);
#endif
}

// The number that row r has for dropout: numbers[r], or r if `numbers` is null.
__device__ __forceinline__ int64_t RowNumber(const int32_t* numbers, int64_t r) {
  return numbers == nullptr ? r : int64_t{__ldg(numbers + r)};
}

// Bit i of the result is set if element 8 * group + i is kept.
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
