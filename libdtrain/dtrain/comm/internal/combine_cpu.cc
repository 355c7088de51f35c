// combine_cpu.cc - block by block through partial results that stay in the first-level cache.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/internal/combine_kernel.h"
#include "dtrain/comm/internal/stream_copy.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(DT_NEON)
#include <arm_neon.h>
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

#if defined(__F16C__) || defined(DT_NEON)
inline void WidenEight(const Float16* from, float* to) {
#if defined(__F16C__)
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm256_storeu_ps(to, _mm256_cvtph_ps(bits));
#else
  const auto halves = vreinterpretq_f16_u16(vld1q_u16(&from->bits));
  vst1q_f32(to, vcvt_f32_f16(vget_low_f16(halves)));
  vst1q_f32(to + 4, vcvt_high_f32_f16(halves));
#endif
}
inline void NarrowEight(const float* from, Float16* to) {
#if defined(__F16C__)
  const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bits);
#else
  const auto halves = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from)), vld1q_f32(from + 4));
  vst1q_u16(&to->bits, vreinterpretq_u16_f16(halves));
#endif
}

template <>
void Widen(const Float16* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) WidenEight(from + i, to + i);
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <>
void Narrow(const float* from, Float16* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) NarrowEight(from + i, to + i);
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

// Reductions of 1, 2, 4, ... neighbouring sources, as the bits of a counter: two of a size become
// one.
template <typename T, typename F>
class BlockTree {
 public:
  using A = typename Accumulator<T>::Type;
  explicit BlockTree(const F& merge) : merge_(merge) {}

  // The elements [begin, begin + n) of all sources; n is at most kBlock.
  A* Reduce(const CombineArgs& args, int64_t begin, int64_t n) {
    size_t depth = 0;
    for (size_t s = 0; s < args.num_sources; ++s) {
      const T* const source = reinterpret_cast<const T*>(args.sources[s]) + begin;
      if (s % 2 == 0) {
        Widen(source, partial_[depth++], n);
        continue;
      }
      if constexpr (sizeof(T) == sizeof(A)) {
        Merge(source, partial_[depth - 1], n);
      } else {
        Widen(source, partial_[depth], n);
        Merge(partial_[depth], partial_[depth - 1], n);
      }
      for (size_t pairs = (s + 1) / 2; pairs % 2 == 0; pairs /= 2) MergeLast(depth, n);
    }
    while (depth > 1) MergeLast(depth, n);
    return partial_[0];
  }

 private:
  void Merge(const A* right, A* left, int64_t n) {
    for (int64_t i = 0; i < n; ++i) left[i] = merge_(left[i], right[i]);
  }
  void MergeLast(size_t& depth, int64_t n) {
    --depth;
    Merge(partial_[depth], partial_[depth - 1], n);
  }

  static constexpr size_t kMostDepth = 33;  // 2^32 are more ranks than an int counts
  F merge_;
  A partial_[kMostDepth][kBlock];
};

template <typename T, typename F>
void CombineBlocks(const CombineArgs& args, const F& merge) {
  using A = typename Accumulator<T>::Type;
  BlockTree<T, F> tree(merge);
  for (int64_t begin = 0; begin < args.count; begin += kBlock) {
    const int64_t n = args.count - begin < kBlock ? args.count - begin : kBlock;
    A* const result = tree.Reduce(args, begin, n);
    if (args.divisor != 1) {
      const A divisor = static_cast<A>(args.divisor);
      for (int64_t i = 0; i < n; ++i) result[i] = static_cast<A>(result[i] / divisor);
    }
    T* const to = reinterpret_cast<T*>(args.out) + begin;
    Narrow(result, to, n);
    if (args.copy == nullptr) continue;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    std::byte* const copy = args.copy + begin * static_cast<int64_t>(sizeof(T));
    if (args.copy_past_caches) {
      internal::StreamCopy(copy, reinterpret_cast<const std::byte*>(to), bytes);
    } else {
      std::memcpy(copy, to, bytes);
    }
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
