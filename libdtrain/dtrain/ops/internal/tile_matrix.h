// tile_matrix.h - products of bfloat16 pairs with the processor's matrix unit (AMX).
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. AMX has eight tiles of 16 rows of 64 bytes.
// Its one instruction computes C[16, 16] += A[16, 16 pairs] B[16 pairs, 16] in 16 cycles: sixteen
// times the speed of AddPairProducts(). Both read matrices in the layout of pairs in
// small_matrix.h.
#ifndef DTRAIN_OPS_INTERNAL_TILE_MATRIX_H_
#define DTRAIN_OPS_INTERNAL_TILE_MATRIX_H_

#include "dtrain/ops/internal/small_matrix.h"

namespace dtrain::DT_CPU_ISA {

// Like Multiply() for pairs with a_column 1; needs a TileScope. It computes rows, and reads pairs,
// up to the next multiples of kTileSide. All three matrices must have this size, and a and b must
// be 0 beyond `depth`.
template <bool kAdd>
void MultiplyByTiles(int64_t rows, const Product& x, int64_t depth, int64_t vecs);

#if defined(__AMX_BF16__)

inline constexpr bool kHasTiles = true;

// Sets up this thread's tiles for as long as the object lives.
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

// Tells GCC 12 that the tile instructions read and write memory.
inline void TileMemoryBarrier() { asm volatile("" ::: "memory"); }

// ---- blocks of 32 x 32 sums --------------------------------------------------------------------
//
// Tiles 0 to 3 hold sums, 4 and 5 hold a, 6 and 7 hold b. Every loaded tile is used in two
// products, so that the 64 cycles of a step hide the loads. A step's operands are loaded while the
// previous step is multiplied. Sums leave their tiles one by one between the first products of the
// next block. A store waits for its sums, and directly after the block it would block all loads
// meanwhile.

// The addresses of the first of a step's two tiles, for each side.
struct TileStep {
  const char *a, *b;
};

// Distances in bytes: from a tile's row to its next row, and from a side's first tile to its
// second.
struct TileLayout {
  int64_t a_row, a_second, b_row, b_second;
};

// [32, 32] floats, whose rows are row_bytes apart.
struct TileSums {
  float* at;
  int64_t row_bytes;

  float* second() const { return at + kTileSide; }
  float* third() const { return at + kTileSide * row_bytes / static_cast<int64_t>(sizeof(float)); }
  float* fourth() const { return third() + kTileSide; }
};

inline void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

inline void LoadSums(const TileSums& sums) {
  _tile_loadd(0, sums.at, sums.row_bytes);
  _tile_loadd(1, sums.second(), sums.row_bytes);
  _tile_loadd(2, sums.third(), sums.row_bytes);
  _tile_loadd(3, sums.fourth(), sums.row_bytes);
}

inline void StoreSums(const TileSums& sums) {
  _tile_stored(0, sums.at, sums.row_bytes);
  _tile_stored(1, sums.second(), sums.row_bytes);
  _tile_stored(2, sums.third(), sums.row_bytes);
  _tile_stored(3, sums.fourth(), sums.row_bytes);
}

inline void LoadStep(const TileStep& step, const TileLayout& layout) {
  _tile_loadd(4, step.a, layout.a_row);
  _tile_loadd(6, step.b, layout.b_row);
  _tile_loadd(7, step.b + layout.b_second, layout.b_row);
  _tile_loadd(5, step.a + layout.a_second, layout.a_row);
}

inline void MultiplyLoaded() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Adds the products of the step that was loaded last, by LoadStep() or MultiplyStep(), and loads
// the next one.
inline void MultiplyStep(const TileStep& next, const TileLayout& layout) {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, next.a, layout.a_row);
  _tile_dpbf16ps(2, 5, 6);
  _tile_loadd(6, next.b, layout.b_row);
  _tile_dpbf16ps(3, 5, 7);
  _tile_loadd(7, next.b + layout.b_second, layout.b_row);
  _tile_loadd(5, next.a + layout.a_second, layout.a_row);
}

// MultiplyStep() for the first step of a block. It also stores the sums of the previous block to
// `before`. kAdd adds to the contents of `now`.
template <bool kAdd>
inline void StartBlock(const TileStep& next, const TileLayout& layout, const TileSums& before,
                       const TileSums& now) {
  _tile_stored(0, before.at, before.row_bytes);
  if constexpr (kAdd) _tile_loadd(0, now.at, now.row_bytes);
  if constexpr (!kAdd) _tile_zero(0);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stored(1, before.second(), before.row_bytes);
  if constexpr (kAdd) _tile_loadd(1, now.second(), now.row_bytes);
  if constexpr (!kAdd) _tile_zero(1);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, next.a, layout.a_row);
  _tile_stored(2, before.third(), before.row_bytes);
  if constexpr (kAdd) _tile_loadd(2, now.third(), now.row_bytes);
  if constexpr (!kAdd) _tile_zero(2);
  _tile_dpbf16ps(2, 5, 6);
  _tile_loadd(6, next.b, layout.b_row);
  _tile_stored(3, before.fourth(), before.row_bytes);
  if constexpr (kAdd) _tile_loadd(3, now.fourth(), now.row_bytes);
  if constexpr (!kAdd) _tile_zero(3);
  _tile_dpbf16ps(3, 5, 7);
  _tile_loadd(7, next.b + layout.b_second, layout.b_row);
  _tile_loadd(5, next.a + layout.a_second, layout.a_row);
}

// ---- matrices in the layout of small_matrix.h --------------------------------------------------

// Computes 32 rows of c from `row` on, in `blocks` blocks of 32 columns. (Addresses are separate
// variables instead of a TileStep in memory; tile_gemm_cpu.cc explains why.)
template <bool kAdd>
inline void MultiplyBlocks(const Product& x, int64_t depth, int64_t row, int64_t blocks) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  constexpr int64_t kBlockBytes = 2 * kTileSide * kFloat;
  const int64_t a_row = x.a_row * kFloat;
  const int64_t b_row = x.b_row * kFloat;
  const int64_t c_row = x.c_row * kFloat;
  const TileLayout layout = {a_row, kTileSide * a_row, b_row, kTileSide * kFloat};
  const char* const a_begin = reinterpret_cast<const char*>(x.a + row * x.a_row);
  const char* b_begin = reinterpret_cast<const char*>(x.b);  // start of the current block
  const char* a = a_begin;
  const char* b = b_begin;
  float* c = x.c + row * x.c_row;
  LoadStep({a, b}, layout);
  if constexpr (kAdd) {
    LoadSums({c, c_row});
  } else {
    ZeroSums();
  }
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t p = 0; p < depth; p += kTileSide) {
      if (p + kTileSide < depth) {
        a += kTileSide * kFloat;
        b += kTileSide * b_row;
      } else {
        // After the last step, the last block's operands are loaded again; they are not used.
        if (block + 1 < blocks) b_begin += kBlockBytes;
        a = a_begin;
        b = b_begin;
      }
      if (p == 0 && block > 0) {
        StartBlock<kAdd>({a, b}, layout, {c, c_row}, {c + 2 * kTileSide, c_row});
        c += 2 * kTileSide;
      } else {
        MultiplyStep({a, b}, layout);
      }
    }
  }
  StoreSums({c, c_row});
}

// Computes c[16 kRows, 16 kColumns] at `column`, for kRows and kColumns that are not both 2.
template <int kRows, int kColumns, bool kAdd>
inline void MultiplyTiles(const Product& x, int64_t depth, int64_t row, int64_t column) {
  static_assert(kRows + kColumns < 4);
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
  } else {
    _tile_zero(0);
    if constexpr (kColumns == 2) _tile_zero(1);
    if constexpr (kRows == 2) _tile_zero(2);
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
    }
    a += kTileSide;
    b += kTileSide * x.b_row;
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kColumns == 2) _tile_stored(1, c + kTileSide, c_bytes);
  if constexpr (kRows == 2) _tile_stored(2, lower_c, c_bytes);
}

template <int kRows, bool kAdd>
inline void MultiplyTileRows(const Product& x, int64_t depth, int64_t row, int64_t columns) {
  const int64_t blocks = columns / (2 * kTileSide);
  int64_t column = blocks * 2 * kTileSide;
  if constexpr (kRows == 2) {
    if (blocks > 0) MultiplyBlocks<kAdd>(x, depth, row, blocks);
  } else {
    for (int64_t c = 0; c < column; c += 2 * kTileSide) {
      MultiplyTiles<kRows, 2, kAdd>(x, depth, row, c);
    }
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
