// combine_cpu.cc - block by block through an accumulator that stays in the first-level cache.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/internal/combine_kernel.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace dtrain::DT_CPU_ISA {
namespace {

constexpr int64_t kBlock = 1024;

// 16-bit floats are combined in float, everything else in its own type.
template <typename T>
struct Accumulator {
  using Type = T;
};
template <>
struct Accumulator<BFloat16> {
  using Type = float;
};
template <>
struct Accumulator<Float16> {
  using Type = float;
};

template <typename T>
void Widen(const T* from, typename Accumulator<T>::Type* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<typename Accumulator<T>::Type>(from[i]);
}
template <typename T>
void Narrow(const typename Accumulator<T>::Type* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

#if defined(__F16C__)
template <>
void Widen(const Float16* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <>
void Narrow(const float* from, Float16* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
  }
  for (; i < n; ++i) to[i] = Float16(from[i]);
}
#endif

// Integers wrap: computed without sign, where overflow is defined.
template <typename A>
struct Wrapping {
  using Type = A;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};
template <>
struct Wrapping<uint8_t> {
  using Type = uint32_t;
};

template <typename A>
struct AddTwo {
  A operator()(A a, A b) const {
    using W = typename Wrapping<A>::Type;
    return static_cast<A>(static_cast<W>(a) + static_cast<W>(b));
  }
};
template <typename A>
struct MultiplyTwo {
  A operator()(A a, A b) const {
    using W = typename Wrapping<A>::Type;
    return static_cast<A>(static_cast<W>(a) * static_cast<W>(b));
  }
};
// b < a is false for NaN, so a NaN is kept by the comparison with itself.
template <typename A>
struct Smaller {
  A operator()(A a, A b) const { return b < a || b != b ? b : a; }
};
template <typename A>
struct Larger {
  A operator()(A a, A b) const { return a < b || b != b ? b : a; }
};
template <typename A>
struct AndTwo {
  A operator()(A a, A b) const { return static_cast<A>(a & b); }
};
template <>
struct AndTwo<float> {
  float operator()(float a, float /*b*/) const { return a; }  // refused before
};
template <>
struct AndTwo<double> {
  double operator()(double a, double /*b*/) const { return a; }
};

template <typename T, typename F>
void CombineBlocks(const CombineArgs& args, const F& merge) {
  using A = typename Accumulator<T>::Type;
  A sum[kBlock];
  A next[kBlock];
  for (int64_t begin = 0; begin < args.count; begin += kBlock) {
    const int64_t n = args.count - begin < kBlock ? args.count - begin : kBlock;
    const auto source = [&](size_t s) {
      return reinterpret_cast<const T*>(args.sources[s]) + begin;
    };
    Widen(source(0), sum, n);
    for (size_t s = 1; s < args.num_sources; ++s) {
      const A* values = next;
      if constexpr (sizeof(T) == sizeof(A)) {
        values = source(s);
      } else {
        Widen(source(s), next, n);
      }
      for (int64_t i = 0; i < n; ++i) sum[i] = merge(sum[i], values[i]);
    }
    if (args.divisor != 1) {
      const A divisor = static_cast<A>(args.divisor);
      for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(sum[i] / divisor);
    }
    T* const to = reinterpret_cast<T*>(args.out) + begin;
    Narrow(sum, to, n);
    if (args.copy == nullptr) continue;
    std::memcpy(static_cast<void*>(reinterpret_cast<T*>(args.copy) + begin), to,
                static_cast<size_t>(n) * sizeof(T));
  }
}

}  // namespace

template <typename T>
void CombineKernel(const CombineArgs& args) {
  using A = typename Accumulator<T>::Type;
  switch (args.op) {
    case CombineOp::kSum:
      return CombineBlocks<T>(args, AddTwo<A>());
    case CombineOp::kMin:
      return CombineBlocks<T>(args, Smaller<A>());
    case CombineOp::kMax:
      return CombineBlocks<T>(args, Larger<A>());
    case CombineOp::kProduct:
      return CombineBlocks<T>(args, MultiplyTwo<A>());
    case CombineOp::kBitAnd:
      return CombineBlocks<T>(args, AndTwo<A>());
  }
}

template void CombineKernel<float>(const CombineArgs&);
template void CombineKernel<double>(const CombineArgs&);
template void CombineKernel<BFloat16>(const CombineArgs&);
template void CombineKernel<Float16>(const CombineArgs&);
template void CombineKernel<int32_t>(const CombineArgs&);
template void CombineKernel<int64_t>(const CombineArgs&);
template void CombineKernel<uint8_t>(const CombineArgs&);

}  // namespace dtrain::DT_CPU_ISA
