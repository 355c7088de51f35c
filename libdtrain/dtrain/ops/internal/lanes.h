// lanes.h - loops over rows in vectors with a shorter last one, and dropout along them.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles, like simd.h. A loop body is written once and
// compiled both for whole vectors and for the remainder:
//
//   ForLanes(0, columns, [&](int64_t c, auto lanes) { Store(y + c, Load(x + c, lanes), lanes); });
#ifndef DTRAIN_OPS_INTERNAL_LANES_H_
#define DTRAIN_OPS_INTERNAL_LANES_H_

#include <cstdint>

#include "dtrain/base/internal/simd.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain::DT_CPU_ISA {

struct AllLanes {};
struct SomeLanes {
  int64_t count;  // fewer than kLanes
};

template <typename T>
inline Vec Load(const T* p, AllLanes) {
  return Load(p);
}
template <typename T>
inline Vec Load(const T* p, SomeLanes lanes) {
  return LoadPartial(p, lanes.count);
}
template <typename T>
inline void Store(T* p, Vec value, AllLanes) {
  Store(p, value);
}
template <typename T>
inline void Store(T* p, Vec value, SomeLanes lanes) {
  StorePartial(p, value, lanes.count);
}

// `value`, with 0 (or `other`) in the lanes that hold no element.
inline Vec Only(Vec value, AllLanes, Vec /*other*/ = Vec{}) { return value; }
inline Vec Only(Vec value, SomeLanes lanes, Vec other = Vec{}) {
  for (int i = 0; i < kLanes; ++i) {
    if (i >= lanes.count) value[i] = other[i];
  }
  return value;
}

template <typename Body>
inline void ForLanes(int64_t begin, int64_t end, const Body& body) {
  int64_t c = begin;
  for (; c + kLanes <= end; c += kLanes) body(c, AllLanes{});
  if (c < end) body(c, SomeLanes{end - c});
}

// The sum of body(c, lanes), which must be 0 in lanes without an element. Four separate sums keep
// additions from waiting for each other.
template <typename Body>
inline float SumLanes(int64_t begin, int64_t end, const Body& body) {
  Vec sum[4] = {};
  int64_t c = begin;
  for (; c + 4 * kLanes <= end; c += 4 * kLanes) {
    sum[0] += body(c, AllLanes{});
    sum[1] += body(c + kLanes, AllLanes{});
    sum[2] += body(c + 2 * kLanes, AllLanes{});
    sum[3] += body(c + 3 * kLanes, AllLanes{});
  }
  ForLanes(c, end, [&](int64_t i, auto lanes) { sum[0] += body(i, lanes); });
  return HorizontalSum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <typename T>
inline T* Row(const Rows& rows, int64_t r) {
  return static_cast<T*>(rows.data) + r * rows.stride;
}

inline void ClearFloats(float* values, int64_t n) {
  std::memset(values, 0, static_cast<uint64_t>(n) * sizeof(float));
}

// Dropout draws random bits for this many columns at a time, which stay in the L1 cache.
inline constexpr int64_t kStretch = 512;

// Number of the first element of row r (ops/dropout.h), for rows of `columns` elements.
inline uint64_t FirstElement(const DropoutDraw& draw, int64_t r, int64_t columns) {
  const int64_t number = draw.row_numbers == nullptr ? r : draw.row_numbers[r];
  return static_cast<uint64_t>(number * columns);
}

// The random bits of up to kStretch consecutive elements.
class DropoutStretch {
 public:
  explicit DropoutStretch(const DropoutDraw& draw) : draw_(draw) {}

  // Draws the bits of elements [first, first + count).
  void Draw(uint64_t first, int64_t count) {
    if (!draw_.on) return;
    const uint64_t block = first / 8;
    start_ = first % 8;
    DrawDropout(draw_.key, block, (static_cast<int64_t>(start_) + count + 7) / 8, draws_);
  }

  // Applies dropout to the vector that starts `offset` elements into the stretch: kept values are
  // scaled, others become 0.
  Vec Apply(Vec value, int64_t offset) const {
    HalfVec bits;
    std::memcpy(&bits, draws_ + start_ + static_cast<uint64_t>(offset), sizeof(bits));
    return Keep(value, ZeroExtend(bits));
  }

#if defined(__AVX512BF16__)
  SplitVec Apply(const SplitVec& value, int64_t offset) const {
    UintVec bits;
    std::memcpy(&bits, draws_ + start_ + static_cast<uint64_t>(offset), sizeof(bits));
    return {Keep(value.even, bits & 0xffffu), Keep(value.odd, bits >> 16)};
  }
#endif

 private:
  Vec Keep(Vec value, UintVec bits) const {
    return bits >= draw_.threshold ? value * draw_.scale : Vec{};
  }

  const DropoutDraw draw_;
  uint64_t start_ = 0;
  // Longer than kStretch, because a whole vector may be read from the last element on.
  alignas(64) uint16_t draws_[kStretch + 8 + kDrawPadding + kLanes];
};

// Calls body(c, lanes, offset) for the columns of a row, after drawing the dropout of its elements,
// which start at first_element. `offset` is the argument for DropoutStretch::Apply.
template <typename Body>
inline void ForDropoutLanes(DropoutStretch& dropout, uint64_t first_element, int64_t columns,
                            const Body& body) {
  for (int64_t begin = 0; begin < columns; begin += kStretch) {
    const int64_t end = begin + kStretch < columns ? begin + kStretch : columns;
    dropout.Draw(first_element + static_cast<uint64_t>(begin), end - begin);
    ForLanes(begin, end, [&](int64_t c, auto lanes) { body(c, lanes, c - begin); });
  }
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_LANES_H_
