// cuda_language.h - the part of CUDA C++ that kernels use, for the host's compiler.
// SPDX-License-Identifier: Apache-2.0
//
// device/cuda/launch.cuh includes this header where nvcc does not compile; executor.h says how the
// kernels then run. __shared__ is not here: kernels take SharedStorage() and DynamicShared().
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_CUDA_LANGUAGE_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_CUDA_LANGUAGE_H_

#include <math.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dtrain/device/stream.h"
#include "testing/host_executor/executor.h"
#include "testing/host_executor/streams.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace dtrain {

extern constinit thread_local host_executor::Index threadIdx, blockIdx, blockDim, gridDim;

// --- Launch and shared memory --------------------------------------------------------------------

struct LaunchShape;

// `Shape` is LaunchShape, which launch.cuh defines further down.
template <typename Params, typename Shape = LaunchShape>
void Launch(void (*kernel)(Params), const Shape& shape, Params params, Stream& stream) {
  const host_executor::Grid grid = {shape.blocks.x, shape.blocks.y, shape.blocks.z, shape.threads,
                                    shape.shared_bytes};
  host_executor::Submit(stream.handle(), [kernel, grid, params] {
    const auto call = [](const void* address, const void* argument) {
      const auto function = reinterpret_cast<void (*)(Params)>(const_cast<void*>(address));
      function(*static_cast<const Params*>(argument));
    };
    host_executor::Run({reinterpret_cast<const void*>(kernel), call, &params}, grid);
  });
}

namespace host_executor {
template <typename T>
inline constexpr char kKeyOf = 0;
}  // namespace host_executor

template <typename T>
T& SharedStorage() {
  return *static_cast<T*>(
      host_executor::StaticShared(&host_executor::kKeyOf<T>, sizeof(T), alignof(T)));
}

inline unsigned char* DynamicShared() { return host_executor::DynamicSharedMemory(); }

// --- Barriers and warp operations ----------------------------------------------------------------

inline void __syncthreads(host_executor::Location location = host_executor::Location::current()) {
  host_executor::BlockBarrier(location);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       host_executor::Location location = host_executor::Location::current()) {
  host_executor::WarpOperation(
      "__syncwarp", mask, nullptr, [](void* const*) {}, location);
}

namespace host_executor {

template <typename T>
struct ShuffleOperand {
  T value;
  int source;  // lane
  T result;
};

template <typename T>
T Shuffle(const char* name, unsigned mask, T value, int source, const Location& location) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  ShuffleOperand<T> operand{value, source, value};
  const auto combine = [](void* const* operands) {
    for (int lane = 0; lane < 32; ++lane) {
      auto& target = *static_cast<ShuffleOperand<T>*>(operands[lane]);
      target.result = static_cast<const ShuffleOperand<T>*>(operands[target.source])->value;
    }
  };
  WarpOperation(name, mask, &operand, combine, location);
  return operand.result;
}

inline int Lane() { return static_cast<int>(threadIdx.x % 32); }

unsigned Ballot(const char* name, unsigned mask, bool predicate, const Location& location);

}  // namespace host_executor

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              host_executor::Location location = host_executor::Location::current()) {
  const int lane = host_executor::Lane();
  const int first = lane & ~(width - 1);
  return host_executor::Shuffle("__shfl_sync", mask, value, first + (source & (width - 1)),
                                location);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  host_executor::Location location = host_executor::Location::current()) {
  const int lane = host_executor::Lane();
  const int source = lane ^ lane_mask;
  const int end = (lane & ~(width - 1)) + width;
  return host_executor::Shuffle("__shfl_xor_sync", mask, value, source < end ? source : lane,
                                location);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   host_executor::Location location = host_executor::Location::current()) {
  const int lane = host_executor::Lane();
  const int64_t source = int64_t{lane} + delta;
  const int end = (lane & ~(width - 1)) + width;
  return host_executor::Shuffle("__shfl_down_sync", mask, value,
                                source < end ? static_cast<int>(source) : lane, location);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 host_executor::Location location = host_executor::Location::current()) {
  const int lane = host_executor::Lane();
  const int64_t source = int64_t{lane} - delta;
  const int first = lane & ~(width - 1);
  return host_executor::Shuffle("__shfl_up_sync", mask, value,
                                source >= first ? static_cast<int>(source) : lane, location);
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    host_executor::Location location = host_executor::Location::current()) {
  return host_executor::Ballot("__ballot_sync", mask, predicate != 0, location);
}
inline int __any_sync(unsigned mask, int predicate,
                      host_executor::Location location = host_executor::Location::current()) {
  return host_executor::Ballot("__any_sync", mask, predicate != 0, location) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      host_executor::Location location = host_executor::Location::current()) {
  return host_executor::Ballot("__all_sync", mask, predicate != 0, location) == 0xffffffffu;
}

// --- Arithmetic ----------------------------------------------------------------------------------

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline int __float2int_rn(float value) { return static_cast<int>(std::nearbyint(value)); }
inline unsigned __float2uint_rn(float value) {
  return static_cast<unsigned>(std::nearbyint(value));
}
inline int __float2int_rz(float value) { return static_cast<int>(value); }

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline int64_t min(int64_t a, int64_t b) { return b < a ? b : a; }
inline int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
inline uint64_t min(uint64_t a, uint64_t b) { return b < a ? b : a; }
inline uint64_t max(uint64_t a, uint64_t b) { return a < b ? b : a; }
// As on the device, the other operand wins over a NaN.
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }

template <typename T>
T __ldg(const T* source) {
  host_executor::CheckAligned(source, sizeof(T));
  return *source;
}

[[noreturn]] inline void __trap() { throw host_executor::Error("a kernel reached __trap()"); }

}  // namespace dtrain

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_CUDA_LANGUAGE_H_
