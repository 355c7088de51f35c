// row_pieces.cuh - pieces of eight columns, which kernels over rows share, and their dropout.
// SPDX-License-Identifier: Apache-2.0
//
// A thread handles kWidth neighbouring columns at a time. kWidth is eight if every row is aligned
// to 16 bytes and consists of whole pieces (16-byte accesses, one Philox call per piece). Otherwise
// it is one.
#ifndef DTRAIN_OPS_INTERNAL_ROW_PIECES_CUH_
#define DTRAIN_OPS_INTERNAL_ROW_PIECES_CUH_

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "dtrain/device/cuda/dropout.cuh"
#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

inline constexpr int kPieceWidth = 8;

// Element `i` of a word of two 16-bit elements, as float. For bfloat16 this takes one instruction
// and no other register, because bfloat16 is a float's upper half.
template <typename T>
__device__ __forceinline__ float HalfOfWord(uint32_t word, int i) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    T half;
    half.bits = static_cast<uint16_t>(i == 0 ? word : word >> 16);
    return ToFloat(half);
  }
}
// kWidth elements of type T. Eight elements of a 16-bit type are stored as four words.
template <typename T, int kWidth>
struct Piece {
  static constexpr bool kInWords = sizeof(T) == 2 && kWidth == kPieceWidth;
  using Unit = std::conditional_t<kInWords, uint32_t, T>;
  static constexpr int kUnits = kInWords ? kWidth / 2 : kWidth;
  // Number of units per access.
  static constexpr int kPack = kUnits < 4 ? kUnits : 4;
  Unit units[kUnits];

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kInWords) {
      return HalfOfWord<T>(units[i / 2], i % 2);
    } else {
      return ToFloat(units[i]);
    }
  }
};

template <int kWidth, typename T>
__device__ __forceinline__ Piece<T, kWidth> LoadPiece(const T* source) {
  using P = Piece<T, kWidth>;
  P piece;
#pragma unroll
  for (int i = 0; i < P::kUnits; i += P::kPack) {
    const auto pack = LoadPacked<P::kPack>(reinterpret_cast<const typename P::Unit*>(source) + i);
#pragma unroll
    for (int j = 0; j < P::kPack; ++j) piece.units[i + j] = pack.values[j];
  }
  return piece;
}

template <typename T, int kWidth>
__device__ __forceinline__ void StorePiece(T* target, const Piece<T, kWidth>& piece) {
  using P = Piece<T, kWidth>;
#pragma unroll
  for (int i = 0; i < P::kUnits; i += P::kPack) {
    Packed<typename P::Unit, P::kPack> pack;
#pragma unroll
    for (int j = 0; j < P::kPack; ++j) pack.values[j] = piece.units[i + j];
    StoreGlobal(reinterpret_cast<typename P::Unit*>(target) + i, pack);
  }
}

// Rounds the values to T.
template <typename T, int kWidth>
__device__ __forceinline__ Piece<T, kWidth> MakePiece(const float (&values)[kWidth]) {
  using P = Piece<T, kWidth>;
  P piece;
#pragma unroll
  for (int i = 0; i < P::kUnits; ++i) {
    if constexpr (P::kInWords) {
      piece.units[i] = PackPair<T>(values[2 * i], values[2 * i + 1]);
    } else {
      piece.units[i] = FromFloat<T>(values[i]);
    }
  }
  return piece;
}

// Loads the piece at `source`, or returns zeros if it is null.
template <int kWidth, typename T>
__device__ __forceinline__ Piece<std::remove_const_t<T>, kWidth> LoadOptionalPiece(T* source) {
  if (source != nullptr) return LoadPiece<kWidth>(static_cast<const T*>(source));
  return {};
}

template <typename T>
__device__ __forceinline__ T* RowAt(const Rows& rows, int64_t r, int64_t column) {
  return static_cast<T*>(rows.data) + r * rows.stride + column;
}
// The same with 32-bit factors, whose product takes one instruction.
template <typename T>
__device__ __forceinline__ T* ColumnsAt(const Rows& rows, int r, int column) {
  return static_cast<T*>(rows.data) + (int64_t{r} * static_cast<int>(rows.stride) + column);
}
// Like RowAt(), but null for an absent matrix.
template <typename T>
__device__ __forceinline__ T* OptionalRowAt(const Rows& rows, int64_t r, int64_t column) {
  return rows.data == nullptr ? nullptr : RowAt<T>(rows, r, column);
}

// The dropout of elements [column, column + kWidth) of row r; without dropout all are kept.
// `columns` and `column` are multiples of kWidth.
template <int kWidth>
__device__ __forceinline__ KeptElements KeptOfPiece(const DropoutDraw& draw, int64_t r,
                                                    int64_t columns, int64_t column) {
  static_assert(kWidth == 1 || kWidth == kPieceWidth);
  if (!draw.on) return {};
  const auto element = static_cast<uint64_t>(RowNumber(draw.row_numbers, r) * columns + column);
  KeptElements kept(WithStep(draw.key, draw.device_step), draw.threshold, element / 8);
  if constexpr (kWidth == 1) kept.MoveToFirst(static_cast<int>(element % 8));
  return kept;
}

// Applies dropout to element i of the piece: what is dropped becomes +0. Without dropout the scale
// is 1.
__device__ __forceinline__ float ApplyDropout(float value, const KeptElements& kept, int i,
                                              float scale) {
  return kept.Keep(i, value * scale);
}

// True if these matrices can be read in pieces of eight columns; absent ones are ignored. A vector
// over the columns is a matrix with stride 0.
template <typename T>
bool InPieces(int64_t columns, std::initializer_list<Rows> matrices) {
  bool aligned = columns % kPieceWidth == 0;
  for (const Rows& m : matrices) {
    if (m.data == nullptr) continue;
    aligned =
        aligned && reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride % kPackedSize<T> == 0;
  }
  return aligned;
}
inline Rows VectorOf(const void* data) { return {.data = const_cast<void*>(data), .stride = 0}; }

// Calls body(std::integral_constant<int, kWidth>{}).
template <typename Body>
void WithWidth(bool in_pieces, const Body& body) {
  if (in_pieces) {
    body(std::integral_constant<int, kPieceWidth>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ROW_PIECES_CUH_
