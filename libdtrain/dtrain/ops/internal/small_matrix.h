// small_matrix.h - products of matrices that fit a core's caches, and copies that prepare them.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. The number of columns is always in whole
// vectors: callers pad their rows.
#ifndef DTRAIN_OPS_INTERNAL_SMALL_MATRIX_H_
#define DTRAIN_OPS_INTERNAL_SMALL_MATRIX_H_

#include <utility>

#include "dtrain/base/internal/simd.h"

namespace dtrain::DT_CPU_ISA {

// Number of rows of c computed at once: kBlockRows x 2 vectors of sums fill the registers, of which
// AVX-512 and NEON have 32 and others 16.
#if defined(__AVX512F__) || defined(DT_NEON)
inline constexpr int kBlockRows = 8;
#else
inline constexpr int kBlockRows = 6;
#endif

inline constexpr int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// c[i, j] (+)= sum over p < depth of a[i * a_row + p * a_column] * b[p * b_row + j]. If a and b are
// pairs of bfloat16 (simd.h), each term is the sum of both products.
struct Product {
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
};

// The terms of a product: floats, pairs of bfloat16, or whole tiles of pairs for AMX
// (tile_matrix.h).
enum class Terms { kFloats, kPairs, kTiles };

// Number of rows, columns and pairs of a tile. Operands for kTiles are padded to whole tiles.
inline constexpr int64_t kTileSide = 16;

template <Terms kTerms>
inline Vec AddTerm(Vec sum, Vec factor, Vec row) {
  if constexpr (kTerms == Terms::kPairs) return AddPairProducts(sum, factor, row);
  return sum + factor * row;
}

template <int kRows, int kVecs, bool kAdd, Terms kTerms>
inline void MultiplyTile(const Product& x, int64_t depth, int64_t column) {
  Vec sums[kRows][kVecs];
  float* const c = x.c + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) sums[r][v] = kAdd ? Load(c + r * x.c_row + v * kLanes) : Vec{};
  }
  const float* a = x.a;
  const float* b = x.b + column;
  for (int64_t p = 0; p < depth; ++p) {
    Vec row[kVecs];
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) row[v] = Load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float* const element = a + r * x.a_row;
      const Vec factor = kTerms == Terms::kPairs ? BroadcastPair(element) : Broadcast(*element);
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) sums[r][v] = AddTerm<kTerms>(sums[r][v], factor, row[v]);
    }
    a += x.a_column;
    b += x.b_row;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) Store(c + r * x.c_row + v * kLanes, sums[r][v]);
  }
}

template <int kRows, bool kAdd, Terms kTerms>
inline void MultiplyRows(const Product& x, int64_t depth, int64_t vecs) {
  int64_t v = 0;
  for (; v + 2 <= vecs; v += 2) MultiplyTile<kRows, 2, kAdd, kTerms>(x, depth, v * kLanes);
  if (v < vecs) MultiplyTile<kRows, 1, kAdd, kTerms>(x, depth, v * kLanes);
}

// Computes a block of `rows` <= kBlockRows rows and `vecs` vectors of columns. kAdd adds to c
// instead of overwriting it.
template <bool kAdd, Terms kTerms = Terms::kFloats>
inline void Multiply(int rows, const Product& x, int64_t depth, int64_t vecs) {
  switch (rows) {
    case 1:
      return MultiplyRows<1, kAdd, kTerms>(x, depth, vecs);
    case 2:
      return MultiplyRows<2, kAdd, kTerms>(x, depth, vecs);
    case 3:
      return MultiplyRows<3, kAdd, kTerms>(x, depth, vecs);
    case 4:
      return MultiplyRows<4, kAdd, kTerms>(x, depth, vecs);
    case 5:
      return MultiplyRows<5, kAdd, kTerms>(x, depth, vecs);
    case 6:
      return MultiplyRows<6, kAdd, kTerms>(x, depth, vecs);
    case 7:
      return MultiplyRows<7, kAdd, kTerms>(x, depth, vecs);
    default:
      return MultiplyRows<kBlockRows, kAdd, kTerms>(x, depth, vecs);
  }
}

// One step of a transposition: swaps the off-diagonal kStep x kStep blocks of rows a and b.
template <int kStep, int... kLane>
inline void SwapBlocks(Vec& a, Vec& b, std::integer_sequence<int, kLane...> /*lanes*/) {
  const Vec low = Shuffle<((kLane & kStep) != 0 ? kLane - kStep + kLanes : kLane)...>(a, b);
  const Vec high = Shuffle<((kLane & kStep) != 0 ? kLane + kLanes : kLane + kStep)...>(a, b);
  a = low;
  b = high;
}

template <int kStep>
inline void TransposeStep(Vec (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStep) == 0) {
      SwapBlocks<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kLanes>{});
    }
  }
}

inline void TransposeSquare(Vec (&rows)[kLanes]) {
  TransposeStep<1>(rows);
  TransposeStep<2>(rows);
  if constexpr (kLanes >= 8) TransposeStep<4 % kLanes>(rows);
  if constexpr (kLanes >= 16) TransposeStep<8 % kLanes>(rows);
}

// to[c * to_row + r] = from[r * from_row + c] for r < rows, c < columns. In `to`, values of r up to
// the next multiple of kLanes become 0.
template <typename T>
inline void TransposeCopy(const T* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                          int64_t to_row) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    const int64_t rows_here = rows - r < kLanes ? rows - r : kLanes;
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t columns_here = columns - c < kLanes ? columns - c : kLanes;
      Vec square[kLanes];
      if (rows_here == kLanes && columns_here == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) square[i] = Load(from + (r + i) * from_row + c);
      } else {
        for (int i = 0; i < kLanes; ++i) {
          const T* const row = from + (r + i) * from_row + c;
          square[i] = i >= rows_here           ? Vec{}
                      : columns_here == kLanes ? Load(row)
                                               : LoadPartial(row, columns_here);
        }
      }
      TransposeSquare(square);
      for (int i = 0; i < columns_here; ++i) Store(to + (c + i) * to_row + r, square[i]);
    }
  }
}

// A matrix whose rows can be read in whole vectors.
struct FloatRows {
  const float* data;
  int64_t row;
};

// Copies rows to a stride of `to_row`. Columns up to the next multiple of kLanes become 0.
template <typename T>
inline FloatRows CopyRows(const T* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                          int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      Store(to + r * to_row + c, Load(from + r * from_row + c));
    }
    if (c < columns) {
      Store(to + r * to_row + c, LoadPartial(from + r * from_row + c, columns - c));
    }
  }
  return {to, to_row};
}

// Combines rows two by two: row r of `to` holds the pairs (from[2 r, c], from[2 r + 1, c]). It is 0
// for a row after the last one and for columns up to the next multiple of kLanes.
inline FloatRows PairRows(const BFloat16* from, int64_t from_row, int64_t rows, int64_t columns,
                          float* to) {
  const int64_t to_row = RoundUp(columns, kLanes);
  for (int64_t r = 0; r < rows; r += 2) {
    const BFloat16* const low = from + r * from_row;
    const BFloat16* const high = low + from_row;
    const bool has_high = r + 1 < rows;
    float* const pairs = to + r / 2 * to_row;
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      Store(pairs + c, MakePairs(LoadHalves(low + c), has_high ? LoadHalves(high + c) : HalfVec{}));
    }
    if (c == columns) continue;
    const int64_t left = columns - c;
    Store(pairs + c, MakePairs(LoadHalvesPartial(low + c, left),
                               has_high ? LoadHalvesPartial(high + c, left) : HalfVec{}));
  }
  return {to, to_row};
}

// Number of summed rows in one term of a product.
template <Terms kTerms>
inline constexpr int64_t kPack = kTerms == Terms::kFloats ? 1 : 2;

template <Terms kTerms>
inline constexpr int64_t TermsOf(int64_t rows) {
  return (rows + kPack<kTerms> - 1) / kPack<kTerms>;
}

inline void ZeroFloats(float* to, int64_t count) {
  std::memset(to, 0, static_cast<size_t>(count) * sizeof(float));
}

// Prepares rows as left operands of products of pairs: consecutive pairs of neighbours.
template <Terms kTerms>
inline FloatRows LeftRows(const BFloat16* from, int64_t from_row, int64_t rows, int64_t columns,
                          float* scratch) {
  if (kTerms == Terms::kPairs || rows % kTileSide == 0) {
    return {reinterpret_cast<const float*>(from), from_row / 2};
  }
  // Copies the rows, because the memory after the last row, which a tile would read, may belong to
  // something else.
  const int64_t to_row = columns / 2;
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(scratch + r * to_row, from + r * from_row, static_cast<size_t>(columns) * 2);
  }
  ZeroFloats(scratch + rows * to_row, (RoundUp(rows, kTileSide) - rows) * to_row);
  return {scratch, to_row};
}

// Prepares rows as right operands of products of pairs that sum over the rows.
template <Terms kTerms>
inline FloatRows RightRows(const BFloat16* from, int64_t from_row, int64_t rows, int64_t columns,
                           float* scratch) {
  const FloatRows pairs = PairRows(from, from_row, rows, columns, scratch);
  if constexpr (kTerms == Terms::kTiles) {
    const int64_t filled = TermsOf<kTerms>(rows);
    ZeroFloats(scratch + filled * pairs.row, (RoundUp(filled, kTileSide) - filled) * pairs.row);
  }
  return pairs;
}

// Rounds two rows of `vecs` vectors of floats to bfloat16 and combines them to pairs. `to` may be
// `low`; a null `high` is a row of 0.
inline void PairFloatRows(const float* low, const float* high, int64_t vecs, float* to) {
  for (int64_t i = 0; i < vecs * kLanes; i += kLanes) {
    const HalfVec upper = high == nullptr ? HalfVec{} : Narrow(Load(high + i));
    Store(to + i, MakePairs(Narrow(Load(low + i)), upper));
  }
}

// Rounds `vecs` vectors of floats to bfloat16, stored as pairs of neighbours. `to` may be `from`.
inline void NarrowRow(const float* from, int64_t vecs, float* to) {
  for (int64_t v = 0; v < vecs; ++v) {
    const HalfVec bits = Narrow(Load(from + v * kLanes));
    std::memcpy(to + v * kLanes / 2, &bits, sizeof(bits));
  }
}

// to = factor * from for one row.
template <typename T>
inline void StoreRow(const float* from, float factor, int64_t columns, T* to) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) Store(to + c, Load(from + c) * factor);
  if (c < columns) StorePartial(to + c, Load(from + c) * factor, columns - c);
}

template <typename A, typename B>
inline float Dot(const A* a, const B* b, int64_t count) {
  Vec sum{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sum += Load(a + i) * Load(b + i);
  if (i < count) sum += LoadPartial(a + i, count - i) * LoadPartial(b + i, count - i);
  return HorizontalSum(sum);
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_SMALL_MATRIX_H_
