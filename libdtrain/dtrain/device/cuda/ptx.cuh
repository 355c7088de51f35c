// ptx.cuh - PTX instructions without a CUDA C++ equivalent: tensor cores, ldmatrix, cp.async.
// SPDX-License-Identifier: Apache-2.0
//
// The second half of this file has the host versions, which the executor in
// tests/testing/host_executor/ runs. They use the same registers in each lane and also check
// addresses.
//
// Fragments of one warp, with g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix fragments for mma").
// A register of two 16-bit elements has the lower index in its lower half.
//   A, 16 rows (m) by 16 (k):  a[0]: row g,     k 2t, 2t + 1     a[2]: row g,     k 2t + 8, 2t + 9
//                              a[1]: row g + 8, k 2t, 2t + 1     a[3]: row g + 8, k 2t + 8, 2t + 9
//   B, 16 (k) by 8 columns (n): b[0]: column g, k 2t, 2t + 1     b[1]: column g, k 2t + 8, 2t + 9
//   D, 16 by 8, float:         d[0], d[1]: row g, columns 2t, 2t + 1     d[2], d[3]: row g + 8
// With k = 8 only a[0], a[1] and b[0] are used.
#ifndef DTRAIN_DEVICE_CUDA_PTX_CUH_
#define DTRAIN_DEVICE_CUDA_PTX_CUH_

#include <type_traits>

#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/device/cuda/packed.cuh"

#if !defined(__CUDACC__)
#include "testing/host_executor/ptx_twins.h"
#endif

namespace dtrain {

// The architecture this code is compiled for, for example 90 for sm_90. Host code and the executor
// count as the newest.
#if defined(__CUDA_ARCH__)
inline constexpr int kTargetCapability = __CUDA_ARCH__ / 10;
#else
inline constexpr int kTargetCapability = 90;
#endif

#if defined(__CUDACC__)

// d += a * b, summed in float32. T is BFloat16 or Float16. Needs sm_80; traps on older GPUs.
template <typename T>
__device__ __forceinline__ void MmaM16N8K16(float (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    static_assert(std::is_same_v<T, Float16>);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  __trap();
#endif
}

// Like MmaM16N8K16, with k = 8. T must be Float16. Needs sm_75.
template <typename T>
__device__ __forceinline__ void MmaM16N8K8(float (&d)[4], const uint32_t (&a)[2],
                                           const uint32_t (&b)[1]) {
  static_assert(std::is_same_v<T, Float16>);
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

// d += a * b with k = 16 on every architecture. BFloat16 needs sm_80: on sm_75 it compiles to a
// trap, so callers must refuse to launch such a kernel there.
template <typename T>
__device__ __forceinline__ void MatrixMultiply16(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  if constexpr (std::is_same_v<T, Float16>) {
    MmaM16N8K8<T>(d, {a[0], a[1]}, {b[0]});
    MmaM16N8K8<T>(d, {a[2], a[3]}, {b[1]});
    return;
  }
#endif
  MmaM16N8K16<T>(d, a, b);
}

// 2^x with an error of about 2 units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float FastExp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// 1 / x with an error of 1 unit in the last place, for x from 2^-126 to 2^126.
__device__ __forceinline__ float FastReciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Loads 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 * i + j passes the address of
// row j of matrix i: 16 bytes, aligned to 16. Afterwards r[i] holds elements 2t and 2t + 1 of row g
// of matrix i, or of its column g with Trans. X2 reads the addresses of lanes 0 to 15 only.
__device__ __forceinline__ void LdMatrixX4(uint32_t (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared)))
               : "memory");
}
__device__ __forceinline__ void LdMatrixX4Trans(uint32_t (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared)))
               : "memory");
}
__device__ __forceinline__ void LdMatrixX2(uint32_t (&r)[2], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared)))
               : "memory");
}
__device__ __forceinline__ void LdMatrixX2Trans(uint32_t (&r)[2], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared)))
               : "memory");
}

// Starts an asynchronous copy of 16 bytes to shared memory. If `valid` is false, it writes 16 zero
// bytes and does not read `global`. Both addresses are aligned to 16. This thread sees the bytes
// after CpAsyncWait(), the block after the next barrier. On sm_75 the copy is synchronous.
__device__ __forceinline__ void CpAsync16(void* shared, const void* global, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
                 "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
               : "memory");
#else
  uint4 value = make_uint4(0, 0, 0, 0);
  if (valid) value = *static_cast<const uint4*>(global);
  *static_cast<uint4*>(shared) = value;
#endif
}

// Closes a group: all copies this thread has started since the previous group.
__device__ __forceinline__ void CpAsyncCommit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

// Waits until at most the kGroups newest groups of this thread are still pending.
template <int kGroups>
__device__ __forceinline__ void CpAsyncWait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(kGroups) : "memory");
#endif
}

#else  // the host versions

template <typename T>
void MmaM16N8K16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                 host_executor::Location location = host_executor::Location::current()) {
  host_executor::MultiplyFragments("MmaM16N8K16", {d, a, b}, kDTypeOf<T>, 16, location);
}
template <typename T>
void MmaM16N8K8(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                host_executor::Location location = host_executor::Location::current()) {
  static_assert(std::is_same_v<T, Float16>);
  host_executor::MultiplyFragments("MmaM16N8K8", {d, a, b}, kDTypeOf<T>, 8, location);
}
template <typename T>
void MatrixMultiply16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                      host_executor::Location location = host_executor::Location::current()) {
  MmaM16N8K16<T>(d, a, b, location);
}

inline float FastExp2(float x) { return exp2f(x); }
inline float FastReciprocal(float x) { return 1.0f / x; }

inline void LdMatrixX4(uint32_t (&r)[4], const void* shared,
                       host_executor::Location location = host_executor::Location::current()) {
  host_executor::LoadMatrices<4, false>("LdMatrixX4", r, shared, location);
}
inline void LdMatrixX4Trans(uint32_t (&r)[4], const void* shared,
                            host_executor::Location location = host_executor::Location::current()) {
  host_executor::LoadMatrices<4, true>("LdMatrixX4Trans", r, shared, location);
}
inline void LdMatrixX2(uint32_t (&r)[2], const void* shared,
                       host_executor::Location location = host_executor::Location::current()) {
  host_executor::LoadMatrices<2, false>("LdMatrixX2", r, shared, location);
}
inline void LdMatrixX2Trans(uint32_t (&r)[2], const void* shared,
                            host_executor::Location location = host_executor::Location::current()) {
  host_executor::LoadMatrices<2, true>("LdMatrixX2Trans", r, shared, location);
}

inline void CpAsync16(void* shared, const void* global, bool valid) {
  host_executor::StartCopy(shared, global, valid);
}
inline void CpAsyncCommit() { host_executor::CommitCopies(); }
template <int kGroups>
void CpAsyncWait() {
  host_executor::WaitForCopies(kGroups);
}

#endif

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_PTX_CUH_
