// ptx.cuh - PTX instructions that CUDA C++ lacks: tensor cores, ldmatrix, cp.async, wgmma, prmt.
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

// True if warpgroup products exist: sm_90a, which is the H100 and H200 but nothing later.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = true;
#else
inline constexpr bool kHasWarpgroups = false;
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

// Four bytes of {b, a}, of which a's are 0 to 3. Digit i of the selector names byte i of the
// result, plus 8 if all of its bits are to be those of the named byte's sign.
__device__ __forceinline__ uint32_t PermuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
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

// ---- products of a warpgroup --------------------------------------------------------------------
//
// Four warps, of which the first one's index is a multiple of 4, multiply together:
//   d[64, 64] += a[64, 16] b[16, 64],  summed in float32
// Warp w holds rows [16 w, 16 w + 16) of d and a, in the fragments above: d[n] are columns [8 n, 8
// n
// + 8). A product is started, and runs while the warps go on:
//   FenceAsyncProxy()    in each thread that wrote the tiles, after it, before a barrier
//   WarpgroupArrive()    before the first product, and again when registers of d or a were written
//   WarpgroupProduct()   any number
//   WarpgroupCommit()    closes a group
//   WarpgroupWait(d...)  until then nobody may touch d, a, or the tiles
// All threads of the warpgroup must take part in each step.

// 64 rows of 64 elements in shared memory, at an address that is a multiple of 1,024 bytes. Chunk c
// (8 elements) of row r lies at chunk c ^ (r & 7) of the row.
struct WarpgroupTile {
  uint64_t descriptor;
};

__device__ __forceinline__ WarpgroupTile MakeWarpgroupTile(const void* tile) {
  // PTX ISA, "Matrix descriptor format": address, two distances between groups of 8 rows, and the
  // swizzle of 128 bytes, each without its lowest 4 bits.
  constexpr uint64_t kGroup = 1024 >> 4;
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile)) & 0x3ffffu;
  return {address >> 4 | kGroup << 16 | kGroup << 32 | uint64_t{1} << 62};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DT_WARPGROUP_SUMS(d)                                                                    \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),     \
      "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
      "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), \
      "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
      "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), \
      "+f"(d[7][2]), "+f"(d[7][3])
#define DT_WARPGROUP_REGISTERS                                                                  \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define DT_WARPGROUP_FROM_REGISTERS(type)                                                    \
  asm volatile(                                                                              \
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"                                             \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " DT_WARPGROUP_REGISTERS \
      "{%32, %33, %34, %35}, %36, p, 1, 1, %38; }"                                           \
      : DT_WARPGROUP_SUMS(d)                                                                 \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"(adds ? 1 : 0),           \
        "n"(kTransposed ? 1 : 0))
#define DT_WARPGROUP_FROM_TILE(type)                                                         \
  asm volatile(                                                                              \
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"                                             \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " DT_WARPGROUP_REGISTERS \
      "%32, %33, p, 1, 1, 0, 0; }"                                                           \
      : DT_WARPGROUP_SUMS(d)                                                                 \
      : "l"(left), "l"(right), "r"(adds ? 1 : 0))
#endif

// d += a b, or d = a b unless `adds`. b is elements [16 step, 16 step + 16) of the tile's rows, of
// which each is a column of b; with kTransposed its rows [16 step, 16 step + 16).
template <typename T, bool kTransposed>
__device__ __forceinline__ void WarpgroupProduct(float (&d)[8][4], const uint32_t (&a)[4],
                                                 const WarpgroupTile& b, int step, bool adds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const uint64_t right = b.descriptor + static_cast<uint64_t>(step * (kTransposed ? 128 : 2));
  if constexpr (std::is_same_v<T, BFloat16>) {
    DT_WARPGROUP_FROM_REGISTERS("bf16");
  } else {
    DT_WARPGROUP_FROM_REGISTERS("f16");
  }
#else
  __trap();
#endif
}

// The same with a in a tile too: elements [16 step, 16 step + 16) of its rows.
template <typename T>
__device__ __forceinline__ void WarpgroupProduct(float (&d)[8][4], const WarpgroupTile& a,
                                                 const WarpgroupTile& b, int step, bool adds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const uint64_t left = a.descriptor + static_cast<uint64_t>(step * 2);
  const uint64_t right = b.descriptor + static_cast<uint64_t>(step * 2);
  if constexpr (std::is_same_v<T, BFloat16>) {
    DT_WARPGROUP_FROM_TILE("bf16");
  } else {
    DT_WARPGROUP_FROM_TILE("f16");
  }
#else
  __trap();
#endif
}

__device__ __forceinline__ void FenceAsyncProxy() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}
__device__ __forceinline__ void WarpgroupArrive() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#endif
}
__device__ __forceinline__ void WarpgroupCommit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
#endif
}

// Waits until at most the kGroups newest groups still run. Those that have ended must be the ones
// that write `sums`.
template <int kGroups, typename... Sums>
__device__ __forceinline__ void WarpgroupWait(Sums&... sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kGroups) : "memory");
  // The compiler must not read the sums before.
  const auto after = [](float(&d)[8][4]) { asm volatile("" : DT_WARPGROUP_SUMS(d) : : "memory"); };
  (after(sums), ...);
#endif
}

#undef DT_WARPGROUP_SUMS
#undef DT_WARPGROUP_REGISTERS
#undef DT_WARPGROUP_FROM_REGISTERS
#undef DT_WARPGROUP_FROM_TILE

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

inline uint32_t PermuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t digit = selector >> (4 * i) & 0xfu;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (digit & 7u))) & 0xffu;
    if ((digit & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
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
struct WarpgroupTile {
  const void* tile;
};
inline WarpgroupTile MakeWarpgroupTile(const void* tile) {
  host_executor::CheckAligned(tile, 1024);
  return {tile};
}
template <typename T, bool kTransposed>
void WarpgroupProduct(float (&d)[8][4], const uint32_t (&a)[4], const WarpgroupTile& b, int step,
                      bool adds,
                      host_executor::Location location = host_executor::Location::current()) {
  host_executor::StartWarpgroupProduct({.d = d[0],
                                        .a = {a[0], a[1], a[2], a[3]},
                                        .a_tile = nullptr,
                                        .b_tile = b.tile,
                                        .is_transposed = kTransposed,
                                        .adds = adds,
                                        .step = step,
                                        .dtype = kDTypeOf<T>},
                                       location);
}
template <typename T>
void WarpgroupProduct(float (&d)[8][4], const WarpgroupTile& a, const WarpgroupTile& b, int step,
                      bool adds,
                      host_executor::Location location = host_executor::Location::current()) {
  host_executor::StartWarpgroupProduct({.d = d[0],
                                        .a = {},
                                        .a_tile = a.tile,
                                        .b_tile = b.tile,
                                        .is_transposed = false,
                                        .adds = adds,
                                        .step = step,
                                        .dtype = kDTypeOf<T>},
                                       location);
}
inline void FenceAsyncProxy() { host_executor::FenceAsyncProxy(); }
inline void WarpgroupArrive(host_executor::Location location = host_executor::Location::current()) {
  host_executor::WarpgroupArrive(location);
}
inline void WarpgroupCommit() { host_executor::WarpgroupCommit(); }
template <int kGroups, typename... Sums>
void WarpgroupWait(Sums&... sums) {
  host_executor::WarpgroupWait(kGroups);
  (static_cast<void>(sums), ...);
}

inline void CpAsyncCommit() { host_executor::CommitCopies(); }
template <int kGroups>
void CpAsyncWait() {
  host_executor::WaitForCopies(kGroups);
}

#endif

// All bits if the sign of byte kByte of `word` is set, else none.
template <int kByte>
__device__ __forceinline__ uint32_t SignOfByte(uint32_t word) {
  return PermuteBytes(word, word, 0x1111u * (8u + kByte));
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_PTX_CUH_
