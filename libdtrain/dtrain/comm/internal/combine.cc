// combine.cc - block by block through an accumulator that stays in the first-level cache.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/combine.h"

#include <algorithm>
#include <type_traits>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kBlock = 1024;

template <typename T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

// Integers wrap: the sum is taken without sign, where overflow is defined.
template <typename A>
A Add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using Unsigned = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// a < b is false for NaN, so a NaN is kept by the comparison with itself.
template <typename A>
A Smaller(A a, A b) {
  return b < a || b != b ? b : a;
}
template <typename A>
A Larger(A a, A b) {
  return a < b || b != b ? b : a;
}

template <typename T, typename F>
void CombineBlocks(std::span<const std::byte* const> sources, int64_t count, int divisor,
                   std::byte* out, const F& merge) {
  using A = Accumulator<T>;
  A sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const T* const first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(first[i]);
    for (size_t s = 1; s < sources.size(); ++s) {
      const T* const next = reinterpret_cast<const T*>(sources[s]) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] = merge(sum[i], static_cast<A>(next[i]));
    }
    if (divisor != 1) {
      for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(sum[i] / static_cast<A>(divisor));
    }
    T* const to = reinterpret_cast<T*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sum[i]);
  }
}

template <typename T>
void CombineAs(ReduceOp op, std::span<const std::byte* const> sources, int64_t count, int divisor,
               std::byte* out) {
  using A = Accumulator<T>;
  switch (op) {
    case ReduceOp::kSum:
      return CombineBlocks<T>(sources, count, 1, out, [](A a, A b) { return Add<A>(a, b); });
    case ReduceOp::kAverage:
      DT_CHECK(!std::is_integral_v<T>) << "an average needs a floating type";
      return CombineBlocks<T>(sources, count, divisor, out, [](A a, A b) { return Add<A>(a, b); });
    case ReduceOp::kMin:
      return CombineBlocks<T>(sources, count, 1, out, [](A a, A b) { return Smaller<A>(a, b); });
    case ReduceOp::kMax:
      return CombineBlocks<T>(sources, count, 1, out, [](A a, A b) { return Larger<A>(a, b); });
  }
}

}  // namespace

void Combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
             int divisor, std::byte* out) {
  switch (dtype) {
    case DType::kFloat32:
      return CombineAs<float>(op, sources, count, divisor, out);
    case DType::kFloat64:
      return CombineAs<double>(op, sources, count, divisor, out);
    case DType::kBFloat16:
      return CombineAs<BFloat16>(op, sources, count, divisor, out);
    case DType::kFloat16:
      return CombineAs<Float16>(op, sources, count, divisor, out);
    case DType::kInt32:
      return CombineAs<int32_t>(op, sources, count, divisor, out);
    case DType::kInt64:
      return CombineAs<int64_t>(op, sources, count, divisor, out);
    case DType::kUint8:
      return CombineAs<uint8_t>(op, sources, count, divisor, out);
  }
}

}  // namespace dtrain::internal
