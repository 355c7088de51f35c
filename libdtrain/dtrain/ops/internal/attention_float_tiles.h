// attention_float_tiles.h - code that attention's passes share on CPUs if they multiply floats.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. A long text's keys do not fit the first-level
// cache, and a product of two tiles hardly does. So a product goes panel by panel. A panel is two
// vectors of columns. It stays in the cache while all rows of the tile are multiplied by it.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FLOAT_TILES_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FLOAT_TILES_H_

#include <type_traits>

#include "dtrain/ops/internal/attention_unit.h"

namespace dtrain::DT_CPU_ISA {

// Vectors of a panel.
inline constexpr int64_t kPanel = 2;
// So many rows fit the first-level cache wherever they are.
inline constexpr int64_t kFewRows = 48;

// Rows [begin, end) of a tile.
struct Rows {
  int64_t begin, end;
};

// Rows as operands of products: copies whose stride is SpacedRow(columns). The rows of a tensor are
// often some KiB apart, so that many would compete for the same few lines of the cache. A few rows
// do not, and are used where they are.
template <typename T>
inline FloatRows SpacedRows(const T* from, int64_t from_row, int64_t rows, int64_t columns,
                            float* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (rows <= kFewRows && columns % kLanes == 0) return {from, from_row};
  }
  return CopyRows(from, from_row, rows, columns, to, SpacedRow(columns));
}

inline FloatRows From(const FloatRows& rows, int64_t first) {
  return {rows.data + first * rows.row, rows.row};
}

// The part of a product from row `row` and vector `vec` on.
inline Product Part(const Product& x, int64_t row, int64_t vec) {
  return {x.a + row * x.a_row,
          x.a_row,
          x.a_column,
          x.b + vec * kLanes,
          x.b_row,
          x.c + row * x.c_row + vec * kLanes,
          x.c_row};
}

// c = a b of the tile's queries (rows) and computed keys (columns), panel by panel. Leaves out rows
// that see no column of a panel.
inline void MultiplyScores(const Tile& tile, const Columns& computed, const Product& x,
                           int64_t depth) {
  const int64_t vecs = computed.vecs();
  for (int64_t vec = 0; vec < vecs; vec += kPanel) {
    const int64_t position = tile.key + computed.begin + vec * kLanes - tile.query;
    const Rows rows = {RoundDown(Larger(0, position - tile.after), kBlockRows),
                       Smaller(tile.queries, position + kPanel * kLanes + tile.before)};
    for (int64_t row = rows.begin; row < rows.end; row += kBlockRows) {
      Multiply<false>(static_cast<int>(Smaller(kBlockRows, rows.end - row)), Part(x, row, vec),
                      depth, Smaller(kPanel, vecs - vec));
    }
  }
}

// c (+)= a b, where a has the tile's queries (rows) and keys (columns), and b's rows are the tile's
// keys. add(row) tells whether the block of rows from `row` on is added to c.
template <typename Adds>
inline void MultiplyByKeys(const Tile& tile, const Product& x, int64_t vecs, const Adds& adds) {
  // All panels of a few keys fit the cache together.
  const int64_t step = tile.keys <= kFewRows ? vecs : kPanel;
  for (int64_t vec = 0; vec < vecs; vec += step) {
    const int64_t panel = Smaller(step, vecs - vec);
    for (int64_t row = 0; row < tile.queries; row += kBlockRows) {
      const int rows = static_cast<int>(Smaller(kBlockRows, tile.queries - row));
      const Columns terms = tile.Computed<Terms::kFloats>(row, rows);
      if (terms.count() == 0) continue;
      Product part = Part(x, row, vec);
      part.a += terms.begin;
      part.b += terms.begin * x.b_row;
      adds(row) ? Multiply<true>(rows, part, terms.count(), panel)
                : Multiply<false>(rows, part, terms.count(), panel);
    }
  }
}

// Calls body(column, is_whole) for each vector of `computed` that has columns of `seen`, and
// unseen(column) for the others. is_whole() is true if `seen` has the whole vector.
template <typename Body, typename Unseen>
inline void ForEachVec(const Columns& computed, const Columns& seen, const Body& body,
                       const Unseen& unseen) {
  int64_t column = computed.begin;
  const int64_t begin = Smaller(RoundDown(seen.begin, kLanes), computed.end);
  for (; column < begin; column += kLanes) unseen(column);
  if (column < Smaller(seen.begin, seen.end)) {
    body(column, std::false_type{});
    column += kLanes;
  }
  for (; column + kLanes <= seen.end; column += kLanes) body(column, std::true_type{});
  if (column < seen.end) {
    body(column, std::false_type{});
    column += kLanes;
  }
  for (; column < computed.end; column += kLanes) unseen(column);
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FLOAT_TILES_H_
