// packed.cuh - converts 4- and 2-byte values to float, and moves several in one memory access.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_PACKED_CUH_
#define DTRAIN_DEVICE_CUDA_PACKED_CUH_

#include "dtrain/base/dtype.h"
#include "dtrain/device/cuda/launch.cuh"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace dtrain {

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ float ToFloat(Float16 value) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(value);
#endif
}

// Rounds to nearest even.
template <typename T>
__device__ __forceinline__ T FromFloat(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
#if defined(__CUDACC__)
    T result;
    if constexpr (kDTypeOf<T> == DType::kBFloat16) {
      result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    } else {
      result.bits = __half_as_ushort(__float2half_rn(value));
    }
    return result;
#else
    return T(value);
#endif
  }
}

// Packs two values into one register as 16-bit elements, `low` in the lower half. One instruction
// from sm_80 on.
template <typename T>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  static_assert(sizeof(T) == 2);
#if defined(__CUDACC__)
  if constexpr (kDTypeOf<T> == DType::kBFloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16 | __bfloat16_as_ushort(pair.x);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return static_cast<uint32_t>(__half_as_ushort(pair.y)) << 16 | __half_as_ushort(pair.x);
  }
#else
  return static_cast<uint32_t>(T(high).bits) << 16 | T(low).bits;
#endif
}

// N elements that one instruction moves, if N * sizeof(T) <= 16.
template <typename T, int N>
struct alignas(sizeof(T) * N) Packed {
  static_assert((sizeof(T) * N & (sizeof(T) * N - 1)) == 0 && sizeof(T) * N <= 16);
  static constexpr int kSize = N;
  T values[N];

  __device__ __forceinline__ float operator[](int i) const { return ToFloat(values[i]); }
  __device__ __forceinline__ void Set(int i, float value) { values[i] = FromFloat<T>(value); }
};

// Number of elements of T in 16 bytes.
template <typename T>
inline constexpr int kPackedSize = static_cast<int>(16 / sizeof(T));

// `source` must be aligned to the size of the pack; the host executor checks this.
template <int N, typename T>
__device__ __forceinline__ Packed<T, N> LoadPacked(const T* source) {
#if !defined(__CUDACC__)
  host_executor::CheckAligned(source, sizeof(T) * N);
#endif
  return *reinterpret_cast<const Packed<T, N>*>(source);
}

template <typename T, int N>
__device__ __forceinline__ void StorePacked(T* target, const Packed<T, N>& pack) {
#if !defined(__CUDACC__)
  host_executor::CheckAligned(target, sizeof(T) * N);
#endif
  *reinterpret_cast<Packed<T, N>*>(target) = pack;
}

// StorePacked() for global memory, guaranteed to be one instruction. nvcc splits some StorePacked()
// calls at the end of loops into single words.
template <typename T, int N>
__device__ __forceinline__ void StoreGlobal(T* target, const Packed<T, N>& pack) {
#if defined(__CUDACC__)
  if constexpr (sizeof(pack) == 16) {
    return __stwb(reinterpret_cast<uint4*>(target), __builtin_bit_cast(uint4, pack));
  } else if constexpr (sizeof(pack) == 8) {
    return __stwb(reinterpret_cast<uint2*>(target), __builtin_bit_cast(uint2, pack));
  }
#endif
  StorePacked(target, pack);
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_PACKED_CUH_
