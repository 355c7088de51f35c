// tile_matrix.h - products of bfloat16 pairs by the processor's matrix unit (AMX).
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. The unit has eight tiles of 16 rows of 64
// bytes and one instruction, C[16, 16] += A[16, 16 pairs] B[16 pairs, 16], in 16 cycles: sixteen
// times what AddPairProducts() does. Both read matrices as small_matrix.h lays out pairs.
#ifndef DTRAIN_OPS_INTERNAL_TILE_MATRIX_H_
#define DTRAIN_OPS_INTERNAL_TILE_MATRIX_H_

#include "dtrain/ops/internal/small_matrix.h"

namespace dtrain::DT_CPU_ISA {

// As Multiply() of pairs, where a_column is 1, in a TileScope. Computes rows and reads pairs up to
// the next multiples of kTileSide: all three matrices hold these, and in a and b what `depth` does
// not count is 0.
template <bool kAdd>
void MultiplyByTiles(int64_t rows, const Product& x, int64_t depth, int64_t vecs);

#if defined(__AMX_BF16__)

inline constexpr bool kHasTiles = true;

// The thread's tiles are set up while this lives.
class TileScope {
 public:
  TileScope() {
    struct alignas(64) Config {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    };
    static_assert(sizeof(Config) == 64);
    static constexpr Config kConfig = {
        1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&kConfig);
  }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// GCC 12 does not know that these instructions read and write memory.
inline void TileMemoryBarrier() { asm volatile("" ::: "memory"); }

// c[16 kRows, 16 kColumns] at `column` of it: tiles 0 to 3 sum, 4 and 5 are a's, 6 and 7 b's. Two
// by two each tile that is loaded serves two products.
template <int kRows, int kColumns, bool kAdd>
inline void MultiplyTiles(const Product& x, int64_t depth, int64_t row, int64_t column) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t a_bytes = x.a_row * kFloat;
  const int64_t b_bytes = x.b_row * kFloat;
  const int64_t c_bytes = x.c_row * kFloat;
  float* const c = x.c + row * x.c_row + column;
  float* const lower_c = c + kTileSide * x.c_row;
  if constexpr (kAdd) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (kColumns == 2) _tile_loadd(1, c + kTileSide, c_bytes);
    if constexpr (kRows == 2) _tile_loadd(2, lower_c, c_bytes);
    if constexpr (kRows == 2 && kColumns == 2) _tile_loadd(3, lower_c + kTileSide, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kColumns == 2) _tile_zero(1);
    if constexpr (kRows == 2) _tile_zero(2);
    if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
  }
  const float* a = x.a + row * x.a_row;
  const float* b = x.b + column;
  for (int64_t p = 0; p < depth; p += kTileSide) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, b + kTileSide, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, a + kTileSide * x.a_row, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(3, 5, 7);
    }
    a += kTileSide;
    b += kTileSide * x.b_row;
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kColumns == 2) _tile_stored(1, c + kTileSide, c_bytes);
  if constexpr (kRows == 2) _tile_stored(2, lower_c, c_bytes);
  if constexpr (kRows == 2 && kColumns == 2) _tile_stored(3, lower_c + kTileSide, c_bytes);
}

template <int kRows, bool kAdd>
inline void MultiplyTileRows(const Product& x, int64_t depth, int64_t row, int64_t columns) {
  int64_t column = 0;
  for (; column + 2 * kTileSide <= columns; column += 2 * kTileSide) {
    MultiplyTiles<kRows, 2, kAdd>(x, depth, row, column);
  }
  if (column < columns) MultiplyTiles<kRows, 1, kAdd>(x, depth, row, column);
}

template <bool kAdd>
inline void MultiplyByTiles(int64_t rows, const Product& x, int64_t depth, int64_t vecs) {
  TileMemoryBarrier();
  int64_t row = 0;
  for (; row + kTileSide < rows; row += 2 * kTileSide) {
    MultiplyTileRows<2, kAdd>(x, depth, row, vecs * kLanes);
  }
  if (row < rows) MultiplyTileRows<1, kAdd>(x, depth, row, vecs * kLanes);
  TileMemoryBarrier();
}

#else

inline constexpr bool kHasTiles = false;

class TileScope {};

#endif

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_TILE_MATRIX_H_
