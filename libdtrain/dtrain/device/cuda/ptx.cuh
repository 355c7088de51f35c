// ptx.cuh - the instructions CUDA C++ has no word for: tensor cores, ldmatrix, asynchronous copies.
// SPDX-License-Identifier: Apache-2.0
//
// Next to each group stand its host twins, which the executor of tests/testing/host_executor/ runs:
// the same registers in and out, lane for lane, and addresses checked.
//
// Fragments of one warp, with g = lane / 4, t = lane % 4 (PTX ISA, "Matrix fragments for mma").
// A register of two 16-bit elements holds the lower index in its lower half.
//   A, 16 rows (m) by 16 (k):  a[0]: row g,     k 2t, 2t + 1     a[2]: row g,     k 2t + 8, 2t + 9
//                              a[1]: row g + 8, k 2t, 2t + 1     a[3]: row g + 8, k 2t + 8, 2t + 9
//   B, 16 (k) by 8 columns (n): b[0]: column g, k 2t, 2t + 1     b[1]: column g, k 2t + 8, 2t + 9
//   D, 16 by 8, float:         d[0], d[1]: row g, columns 2t, 2t + 1     d[2], d[3]: row g + 8
// For k = 8: a[0], a[1], b[0] alone.
#ifndef DTRAIN_DEVICE_CUDA_PTX_CUH_
#define DTRAIN_DEVICE_CUDA_PTX_CUH_

#include <type_traits>

#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/device/cuda/packed.cuh"

namespace dtrain {

// Whether this is code for a GPU before sm_80: its tensor cores take float16 alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool kBeforeSm80 = true;
#else
inline constexpr bool kBeforeSm80 = false;
#endif

#if defined(__CUDACC__)

// d += a * b, summed in float. T = BFloat16 or Float16; sm_80 and later, elsewhere a trap.
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

// The same with k = 8. T = Float16 alone; sm_75 and later.
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

// d += a * b of k = 16 on any architecture. BFloat16 needs sm_80: on sm_75 it compiles to a trap,
// and whoever launches such a kernel there refuses first.
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

// 2^x to about 2 units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float FastExp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Loads 8 x 8 matrices of 16-bit elements: lane 8 * i + j passes the address of row j of matrix i,
// 16 bytes in shared memory, aligned to 16. Afterwards r[i] holds elements 2t, 2t + 1 of row g of
// matrix i; with Trans, of its column g. X2 reads the addresses of lanes 0 to 15.
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

// Starts copying 16 bytes past the registers, or 16 zero bytes unless `valid` (`global` is then not
// read). Both addresses are aligned to 16. The bytes are there for this thread after CpAsyncWait,
// for the block after the barrier that follows it. On sm_75 the copy is done at once.
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

// Ends a group: the copies this thread started since the group before.
__device__ __forceinline__ void CpAsyncCommit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

// Waits until at most the kGroups youngest groups of this thread are under way.
template <int kGroups>
__device__ __forceinline__ void CpAsyncWait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(kGroups) : "memory");
#endif
}

#else  // the host twins

namespace host_executor {

struct MmaOperand {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

template <typename T>
float HalfOf(uint32_t pair, int half) {
  T value;
  value.bits = static_cast<uint16_t>(pair >> (16 * half));
  return ToFloat(value);
}

// Gathers the operands by the fragment layout above, multiplies, adds in the order of k, scatters.
template <typename T, int kDepth>
void CombineMma(void* const* operands) {
  float a[16][kDepth];
  float b[kDepth][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(operands[lane]);
    const int g = lane / 4;
    for (int i = 0; i < kDepth / 4; ++i) {
      for (int half = 0; half < 2; ++half) {
        const int k = 2 * (lane % 4) + 8 * (i / 2) + half;
        a[g + 8 * (i % 2)][k] = HalfOf<T>(operand.a[i], half);
        if (i % 2 == 0) b[k][g] = HalfOf<T>(operand.b[i / 2], half);
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand*>(operands[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      for (int k = 0; k < kDepth; ++k) operand.d[i] += a[row][k] * b[k][column];
    }
  }
}

struct LdMatrixOperand {
  uint32_t* r;
  const void* row;
};

template <int kMatrices, bool kTransposed>
void CombineLdMatrix(void* const* operands) {
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) {
      const auto& owner = *static_cast<const LdMatrixOperand*>(operands[8 * matrix + row]);
      std::memcpy(elements[row], owner.row, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = 2 * (lane % 4);
      const uint32_t low = kTransposed ? elements[t][g] : elements[g][t];
      const uint32_t high = kTransposed ? elements[t + 1][g] : elements[g][t + 1];
      static_cast<const LdMatrixOperand*>(operands[lane])->r[matrix] = low | high << 16;
    }
  }
}

template <int kMatrices, bool kTransposed>
void LdMatrix(const char* name, uint32_t* r, const void* shared, const Location& location) {
  if (Lane() < 8 * kMatrices) {
    CheckAligned(shared, 16);
    CheckShared(shared, 16);
    RecordRead(shared, 16);
  }
  LdMatrixOperand operand{r, shared};
  WarpOperation(name, kFullWarp, &operand, CombineLdMatrix<kMatrices, kTransposed>, location);
}

}  // namespace host_executor

template <typename T>
void MmaM16N8K16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                 host_executor::Location location = host_executor::Location::current()) {
  static_assert(std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>);
  host_executor::MmaOperand operand{d, a, b};
  host_executor::WarpOperation("MmaM16N8K16", kFullWarp, &operand, host_executor::CombineMma<T, 16>,
                               location);
}

template <typename T>
void MmaM16N8K8(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                host_executor::Location location = host_executor::Location::current()) {
  static_assert(std::is_same_v<T, Float16>);
  host_executor::MmaOperand operand{d, a, b};
  host_executor::WarpOperation("MmaM16N8K8", kFullWarp, &operand, host_executor::CombineMma<T, 8>,
                               location);
}

template <typename T>
void MatrixMultiply16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                      host_executor::Location location = host_executor::Location::current()) {
  MmaM16N8K16<T>(d, a, b, location);
}

inline float FastExp2(float x) { return exp2f(x); }

inline void LdMatrixX4(uint32_t (&r)[4], const void* shared,
                       host_executor::Location location = host_executor::Location::current()) {
  host_executor::LdMatrix<4, false>("LdMatrixX4", r, shared, location);
}
inline void LdMatrixX4Trans(uint32_t (&r)[4], const void* shared,
                            host_executor::Location location = host_executor::Location::current()) {
  host_executor::LdMatrix<4, true>("LdMatrixX4Trans", r, shared, location);
}
inline void LdMatrixX2(uint32_t (&r)[2], const void* shared,
                       host_executor::Location location = host_executor::Location::current()) {
  host_executor::LdMatrix<2, false>("LdMatrixX2", r, shared, location);
}
inline void LdMatrixX2Trans(uint32_t (&r)[2], const void* shared,
                            host_executor::Location location = host_executor::Location::current()) {
  host_executor::LdMatrix<2, true>("LdMatrixX2Trans", r, shared, location);
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
