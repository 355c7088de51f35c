// dropout.cuh - which of eight elements dropout keeps, as defined in ops/dropout.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_DROPOUT_CUH_
#define DTRAIN_DEVICE_CUDA_DROPOUT_CUH_

#include "dtrain/base/random.h"
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/device/cuda/ptx.cuh"

namespace dtrain {

// Returns `key` with its step replaced by *step unless `step` is null. A recorded launch then draws
// new numbers each time it is repeated.
__device__ __forceinline__ RandomKey WithStep(RandomKey key, const uint32_t* step) {
  if (step != nullptr) key.step = __ldg(step);
  return key;
}
// `value`, which is the same in all 32 lanes. They must all call it. The result of a reduction
// stays in a uniform register, as kernel arguments do, which helps kernels without a free register.
__device__ __forceinline__ uint32_t MakeUniform(uint32_t value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_or_sync(kFullWarp, value);
#else
  return value;
#endif
}
// Like WithStep(), but in place, and uniform.
__device__ __forceinline__ void TakeStep(RandomKey& key, const uint32_t* step) {
  if (step != nullptr) key.step = MakeUniform(__ldg(step));
}

// The number that row r has for dropout: numbers[r], or r if `numbers` is null.
__device__ __forceinline__ int64_t RowNumber(const int32_t* numbers, int64_t r) {
  return numbers == nullptr ? r : int64_t{__ldg(numbers + r)};
}

// The eight elements of a draw. Bit 15 of marks[i] is set if element 2 i is kept, bit 31 if element
// 2 i + 1 is.
struct KeptElements {
  uint32_t marks[4];

  // Keeps all: what a kernel uses without dropout.
  __device__ __forceinline__ KeptElements() : marks{~0u, ~0u, ~0u, ~0u} {}
  // A sum of 15 random bits and 2^15 - threshold carries into bit 15 where they are at least the
  // threshold, and no further. So one addition compares two elements.
  __device__ __forceinline__ KeptElements(const RandomKey& key, uint32_t threshold, uint64_t draw) {
    const std::array<uint32_t, 4> words = Philox<kDropoutRounds>(key, draw);
    const uint32_t offset = (0x8000u - threshold) * 0x10001u;
#pragma unroll
    for (size_t i = 0; i < 4; ++i) marks[i] = (words[i] & 0x7fff7fffu) + offset;
  }

  // All bits if element i is kept, else none.
  __device__ __forceinline__ uint32_t Mask(int i) const {
    return i % 2 == 0 ? SignOfByte<1>(marks[i / 2]) : SignOfByte<3>(marks[i / 2]);
  }
  // `scale` if element i is kept, else 0.
  __device__ __forceinline__ float Factor(int i, float scale) const {
    return __uint_as_float(__float_as_uint(scale) & Mask(i));
  }
  // `value` if element i is kept, else 0.
  __device__ __forceinline__ float Keep(int i, float value) const {
    return __uint_as_float(__float_as_uint(value) & Mask(i));
  }
  // Makes element i, which need not be known at compile time, element 0.
  __device__ __forceinline__ void MoveToFirst(int i) {
    const uint32_t low = i / 2 % 2 == 0 ? marks[0] : marks[1];
    const uint32_t high = i / 2 % 2 == 0 ? marks[2] : marks[3];
    const uint32_t both = i < 4 ? low : high;
    marks[0] = i % 2 == 0 ? both : both >> 16;
  }
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_DROPOUT_CUH_
