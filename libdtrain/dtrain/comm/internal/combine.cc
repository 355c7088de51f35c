// combine.cc - block by block through sums that stay in the first-level cache.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/combine.h"

#include <algorithm>
#include <cstring>
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
template <typename A>
A Multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
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

struct Outputs {
  int64_t count;
  int divisor;
  std::byte* first;
  std::byte* second;  // may be null
};

// Sums of 1, 2, 4, ... neighbouring sources, as the bits of a counter: two of a size become one.
template <typename T, typename F>
class BlockTree {
 public:
  using A = Accumulator<T>;
  explicit BlockTree(const F& merge) : merge_(merge) {}

  // The elements [begin, begin + n) of all sources; n is at most kBlock.
  A* Sum(std::span<const std::byte* const> sources, int64_t begin, int64_t n) {
    size_t depth = 0;
    for (size_t s = 0; s < sources.size(); ++s) {
      const T* const source = reinterpret_cast<const T*>(sources[s]) + begin;
      if (s % 2 == 0) {
        A* const sum = sums_[depth++];
        for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(source[i]);
        continue;
      }
      A* const sum = sums_[depth - 1];
      for (int64_t i = 0; i < n; ++i) sum[i] = merge_(sum[i], static_cast<A>(source[i]));
      for (size_t pairs = (s + 1) / 2; pairs % 2 == 0; pairs /= 2) MergeLast(depth, n);
    }
    while (depth > 1) MergeLast(depth, n);
    return sums_[0];
  }

 private:
  // The last two sums become one.
  void MergeLast(size_t& depth, int64_t n) {
    const A* const right = sums_[--depth];
    A* const left = sums_[depth - 1];
    for (int64_t i = 0; i < n; ++i) left[i] = merge_(left[i], right[i]);
  }

  static constexpr size_t kMostDepth = 32;  // two to that power are more ranks than an int counts
  const F& merge_;
  A sums_[kMostDepth][kBlock];
};

template <typename T, typename F>
void CombineBlocks(std::span<const std::byte* const> sources, const Outputs& out, const F& merge) {
  using A = Accumulator<T>;
  BlockTree<T, F> tree(merge);
  for (int64_t begin = 0; begin < out.count; begin += kBlock) {
    const int64_t n = std::min(kBlock, out.count - begin);
    A* const sum = tree.Sum(sources, begin, n);
    if (out.divisor != 1) {
      const A divisor = static_cast<A>(out.divisor);
      for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(sum[i] / divisor);
    }
    T* const to = reinterpret_cast<T*>(out.first) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sum[i]);
    if (out.second == nullptr) continue;
    std::memcpy(reinterpret_cast<T*>(out.second) + begin, to, static_cast<size_t>(n) * sizeof(T));
  }
}

template <typename T>
void CombineAs(ReduceOp op, std::span<const std::byte* const> sources, const Outputs& out) {
  using A = Accumulator<T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return CombineBlocks<T>(sources, out, [](A a, A b) { return Add<A>(a, b); });
    case ReduceOp::kMin:
      return CombineBlocks<T>(sources, out, [](A a, A b) { return Smaller<A>(a, b); });
    case ReduceOp::kMax:
      return CombineBlocks<T>(sources, out, [](A a, A b) { return Larger<A>(a, b); });
    case ReduceOp::kProduct:
      return CombineBlocks<T>(sources, out, [](A a, A b) { return Multiply<A>(a, b); });
    case ReduceOp::kBitAnd:
      if constexpr (std::is_integral_v<T>) {
        return CombineBlocks<T>(sources, out, [](A a, A b) { return static_cast<A>(a & b); });
      }
      DT_CHECK(false) << "a bitwise and needs integers";
  }
}

}  // namespace

void Combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
             int divisor, std::byte* out, std::byte* copy) {
  const Outputs outputs{count, op == ReduceOp::kAverage ? divisor : 1, out, copy};
  switch (dtype) {
    case DType::kFloat32:
      return CombineAs<float>(op, sources, outputs);
    case DType::kFloat64:
      return CombineAs<double>(op, sources, outputs);
    case DType::kBFloat16:
      return CombineAs<BFloat16>(op, sources, outputs);
    case DType::kFloat16:
      return CombineAs<Float16>(op, sources, outputs);
    case DType::kInt32:
      return CombineAs<int32_t>(op, sources, outputs);
    case DType::kInt64:
      return CombineAs<int64_t>(op, sources, outputs);
    case DType::kUint8:
      return CombineAs<uint8_t>(op, sources, outputs);
  }
}

}  // namespace dtrain::internal
