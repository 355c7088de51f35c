// shuffle.h - rearranges the lanes of SIMD vectors, for compilers with and without clang's builtin.
// SPDX-License-Identifier: Apache-2.0
//
//   Vec swapped = Shuffle<1, 0, 3, 2>(v, v);
//
// Everything here is in namespace DT_CPU_ISA, for the reason that simd.h gives.
#ifndef DTRAIN_BASE_INTERNAL_SHUFFLE_H_
#define DTRAIN_BASE_INTERNAL_SHUFFLE_H_

namespace dtrain::DT_CPU_ISA {

// Lane i of the result is lane kLane[i] of a and b, where b's lanes count on after a's. Has as many
// lanes as a and b.
template <int... kLane, typename V>
inline V Shuffle(const V& a, const V& b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, kLane...);
#else  // g++ before 12
  using Lanes = decltype(a < b);
  return __builtin_shuffle(a, b, Lanes{kLane...});
#endif
}

// Lane i of the result is lane kLane[i] of v. A Part has fewer lanes than v.
template <typename Part, int... kLane, typename V>
inline Part PartOf(const V& v) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(v, v, kLane...);
#else
  return Part{v[kLane]...};
#endif
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_BASE_INTERNAL_SHUFFLE_H_
