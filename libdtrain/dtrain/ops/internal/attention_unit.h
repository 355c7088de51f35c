// attention_unit.h - code that attention's forward and backward passes share on CPUs.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. A unit is one (sequence, head). K and V are
// transposed once per unit, so that every product reads its right operand in whole vectors.
// Sequences of up to kKeyTile keys (kFloatKeyTile if floats are multiplied) are a single tile.
//
// Some processors multiply pairs of bfloat16: Terms::kPairs, or Terms::kTiles with AMX. There
// bfloat16 tensors are multiplied directly, and intermediate values are rounded to bfloat16 before
// products, as on GPUs. Sums and the softmax are always float32.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_UNIT_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_UNIT_H_

#include <type_traits>

#include "dtrain/base/cpu_isa.h"
#include "dtrain/ops/internal/attention_kernel.h"
#include "dtrain/ops/internal/small_matrix.h"
#include "dtrain/ops/internal/tile_matrix.h"

namespace dtrain::DT_CPU_ISA {

inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Number of queries that are multiplied at once.
template <Terms kTerms>
inline constexpr int64_t kRowsAtOnce = kTerms == Terms::kTiles ? kQueryTile : kBlockRows;

template <bool kAdd, Terms kTerms>
inline void MultiplyBlock(int64_t rows, const Product& x, int64_t depth, int64_t vecs) {
  if constexpr (kTerms == Terms::kTiles) {
    MultiplyByTiles<kAdd>(rows, x, depth, vecs);
  } else {
    Multiply<kAdd, kTerms>(static_cast<int>(rows), x, depth, vecs);
  }
}

// A row stride that is not a multiple of 256 bytes, because such rows would compete for a few lines
// of the cache.
inline int64_t SpacedRow(int64_t floats) {
  const int64_t row = RoundUp(floats, kLanes);
  return row % 64 == 0 ? row + 16 : row;
}

// One (sequence, head), with its working memory.
template <typename T>
struct Unit {
  int64_t queries, keys, first_query, first_key;  // tokens
  int64_t padded_keys;                            // number of keys, padded for right operands that
                                                  // sum over keys
  int64_t head, dim, padded_dim;
  int64_t tile_row;     // stride of score tiles and transposed keys
  int64_t tile_floats;  // size of one tile of transposed keys
  const T *q, *k, *v;
  float* scratch;  // the part of the scratch memory that is still free

  float* Take(int64_t floats) {
    float* const taken = scratch;
    scratch += RoundUp(floats, 16);
    return taken;
  }
};

// `key_tile` is the number of keys of a tile.
template <typename T>
inline Unit<T> MakeUnit(const AttentionArgs& args, int64_t index, int64_t key_tile = kKeyTile) {
  Unit<T> u;
  const int64_t sequence = index / args.num_heads;
  u.head = index % args.num_heads;
  u.first_query = args.query_offsets[sequence];
  u.queries = args.query_offsets[sequence + 1] - u.first_query;
  u.first_key = args.key_offsets[sequence];
  u.keys = args.key_offsets[sequence + 1] - u.first_key;
  u.dim = args.head_dim;
  u.padded_dim = RoundUp(u.dim, kLanes);
  u.padded_keys = RoundUp(u.keys, 2 * kTileSide);
  u.tile_row = SpacedRow(Smaller(u.keys, key_tile));
  u.tile_floats = u.dim * u.tile_row;
  const int64_t column = u.head * u.dim;
  u.q = static_cast<const T*>(args.q) + u.first_query * args.q_stride + column;
  u.k = static_cast<const T*>(args.k) + u.first_key * args.k_stride + column;
  u.v = static_cast<const T*>(args.v) + u.first_key * args.v_stride + column;
  u.scratch = args.scratch;
  return u;
}

// Prefetches row i of the unit's inputs. The processor does not do so itself, because the row is
// far from the previous one.
template <typename T>
inline void FetchRow(const AttentionArgs& args, const Unit<T>& u, int64_t i) {
  const auto fetch = [&](const T* row) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t c = 0; c < u.dim; c += kLine) __builtin_prefetch(row + c, 0, 2);
  };
  if (i < u.queries) fetch(u.q + i * args.q_stride);
  if (i >= u.keys) return;
  fetch(u.k + i * args.k_stride);
  fetch(u.v + i * args.v_stride);
}

// Transposes [keys, dim] into tiles of [terms of dim, tile_row].
template <Terms kTerms, int64_t kTile = kKeyTile, typename T>
inline const float* TransposeTiles(Unit<T>& u, const T* from, int64_t stride) {
  const int64_t tiles = (u.keys + kTile - 1) / kTile;
  float* const to = u.Take(tiles * u.tile_floats);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = t * kTile;
    const int64_t keys = Smaller(kTile, u.keys - first);
    float* const tile = to + t * u.tile_floats;
    if constexpr (kTerms == Terms::kFloats) {
      TransposeCopy(from + first * stride, stride, keys, u.dim, tile, u.tile_row);
    } else {
      TransposeCopy(reinterpret_cast<const float*>(from + first * stride), stride / 2, keys,
                    u.dim / 2, tile, u.tile_row);
    }
  }
  return to;
}

// Pads a row of `vecs` vectors that were narrowed to pairs, because a tile reads two vectors at
// once.
template <Terms kTerms>
inline void EndPairs(float* pairs, int64_t vecs) {
  if (kTerms == Terms::kTiles && vecs % 2 != 0) ZeroFloats(pairs + vecs * kLanes / 2, kLanes / 2);
}

// Narrows a row of a block's dS to pairs of keys; `to` may be `from`.
template <Terms kTerms>
inline void NarrowScores(const float* from, int64_t vecs, float* to) {
  NarrowRow(from, vecs, to);
  EndPairs<kTerms>(to, vecs);
}

// Columns [begin, end) of a tile; none if begin >= end.
struct Columns {
  int64_t begin, end;

  int64_t count() const { return Larger(0, end - begin); }
  int64_t vecs() const { return (count() + kLanes - 1) / kLanes; }
  // The same columns, counted from column `first`.
  Columns From(int64_t first) const { return {begin - first, end - first}; }
};

inline int64_t RoundDown(int64_t n, int64_t multiple) { return n / multiple * multiple; }

// Products start at a multiple of so many columns: of a vector, or of the pairs of an AMX tile.
template <Terms kTerms>
inline constexpr int64_t kColumnStep = kTerms == Terms::kTiles ? 2 * kTileSide : kLanes;

// Queries [query, query + queries) and keys [key, key + keys), as positions in the sequence. Query
// i sees keys i - before to i + after.
struct Tile {
  int64_t query, queries, key, keys;
  int64_t before, after;

  // The columns that some row of [row, row + rows) sees.
  Columns Seen(int64_t row, int64_t rows) const {
    return {Larger(0, query + row - before - key), Smaller(keys, query + row + rows + after - key)};
  }
  // The same and, before them, those that products compute too.
  template <Terms kTerms>
  Columns Computed(int64_t row, int64_t rows) const {
    const Columns seen = Seen(row, rows);
    return {RoundDown(seen.begin, kColumnStep<kTerms>), seen.end};
  }
  // True if no row from `row` on sees a key of an earlier tile.
  bool IsFirst(int64_t row) const { return key <= Larger(0, query + row - before); }
};

// How many keys before and after itself a query sees.
struct Reach {
  int64_t before, after;
};

inline Reach ReachOf(const AttentionArgs& args) {
  constexpr int64_t kFar = int64_t{1} << 32;  // beyond every sequence's ends
  const int64_t before = args.window > 0 ? args.window : kFar;
  return {before, args.causal ? 0 : before};
}

// Calls body(tile) for the tiles of which queries [query, query + queries) see keys, in order.
template <int64_t kTile = kKeyTile, typename T, typename Body>
inline void ForEachTile(const AttentionArgs& args, const Unit<T>& u, int64_t query, int64_t queries,
                        const Body& body) {
  const Reach reach = ReachOf(args);
  const int64_t end = Smaller(u.keys, query + queries + reach.after);
  for (int64_t key = RoundDown(Larger(0, query - reach.before), kTile); key < end; key += kTile) {
    body(Tile{query, queries, key, Smaller(kTile, u.keys - key), reach.before, reach.after});
  }
}

// Calls body(tile) for the tiles whose queries see some of the keys [key, key + keys), in order.
template <int64_t kTile, typename T, typename Body>
inline void ForEachQueryTile(const AttentionArgs& args, const Unit<T>& u, int64_t key, int64_t keys,
                             const Body& body) {
  const Reach reach = ReachOf(args);
  const int64_t end = Smaller(u.queries, key + keys + reach.before);
  for (int64_t query = RoundDown(Larger(0, key - reach.after), kTile); query < end;
       query += kTile) {
    body(Tile{query, Smaller(kTile, u.queries - query), key, keys, reach.before, reach.after});
  }
}

// The lanes of `x` whose columns `seen` has, and `other` in the remaining lanes. Lane 0 is column
// `first`.
inline Vec Within(int64_t first, const Columns& seen, Vec x, float other) {
  x = Below(first, seen.end, x, other);
  if (first >= seen.begin) return x;
  return LaneNumbers() < static_cast<int32_t>(seen.begin - first) ? Broadcast(other) : x;
}

// The largest of the scores that are seen, after scaling.
inline float LargestScore(const AttentionArgs& args, const Columns& seen, const float* scores) {
  if (seen.count() == 0) return kMinusInfinity;
  Vec largest = Broadcast(kMinusInfinity);
  int64_t column = RoundDown(seen.begin, kLanes);
  const auto add_part = [&] {
    largest =
        Max(largest, Within(column, seen, Load(scores + column) * args.scale, kMinusInfinity));
  };
  if (column < seen.begin) {
    add_part();
    column += kLanes;
  }
  for (; column + kLanes <= seen.end; column += kLanes) {
    largest = Max(largest, Load(scores + column) * args.scale);
  }
  if (column < seen.end) add_part();
  return HorizontalMax(largest);
}

// The random bits of a tile: [queries, row], of which the columns Seen(0, queries) are set.
struct Draws {
  const uint16_t* data;
  int64_t row;
};

template <typename T>
inline Draws DrawTile(const AttentionArgs& args, const Unit<T>& u, const Tile& tile,
                      uint16_t* buffer) {
  if (args.dropout_threshold == 0) return {buffer, 0};
  const Columns seen = tile.Seen(0, tile.queries);
  const int64_t blocks = (seen.end + kDropoutBlock - 1) / kDropoutBlock;
  const int64_t row = RoundUp(blocks, 2) * kDropoutBlock;
  const int64_t unseen = RoundDown(seen.begin / kDropoutBlock, 2);  // blocks
  const int64_t number = args.row_numbers == nullptr || u.queries == 0
                             ? u.first_query
                             : args.row_numbers[u.first_query];
  for (int64_t query = 0; query < tile.queries; query += kDropoutBlock) {
    const int64_t first_row = (number + tile.query + query) * args.num_heads + u.head;
    DrawScores(args.dropout_key, static_cast<uint32_t>(first_row),
               static_cast<uint32_t>(args.num_heads), kDropoutDraws,
               static_cast<uint64_t>((tile.key / kDropoutBlock + unseen) * 4), blocks - unseen, row,
               buffer + query * row + unseen * kDropoutBlock);
  }
  return {buffer, row};
}

inline Vec KeepFactor(const AttentionArgs& args, const uint16_t* draws) {
  return KeepScale(draws, args.dropout_threshold, args.dropout_scale);
}

// True if tensors can be read as pairs, because head sizes and strides are even. (In a forward pass
// d_out's stride is 0.)
inline bool ReadsPairs(const AttentionArgs& args) {
  const int64_t extents =
      args.head_dim | args.q_stride | args.k_stride | args.v_stride | args.d_out_stride;
  return extents % 2 == 0;
}

// True if AMX can multiply the tensors, because head sizes are multiples of whole tiles.
inline bool FillsTiles(const AttentionArgs& args) {
  return BestCpuIsa() >= CpuIsa::kAmxBf16 && args.head_dim % (2 * kTileSide) == 0;
}

// Calls run(terms) with the best Terms that the tensors and the processor support.
template <typename T, typename Run>
inline void WithTerms(const AttentionArgs& args, const Run& run) {
  if constexpr (kHasPairs && sizeof(T) == sizeof(BFloat16)) {
    if constexpr (kHasTiles) {
      if (ReadsPairs(args) && FillsTiles(args)) {
        [[maybe_unused]] const TileScope scope;
        return run(std::integral_constant<Terms, Terms::kTiles>{});
      }
    }
    if (ReadsPairs(args)) return run(std::integral_constant<Terms, Terms::kPairs>{});
  }
  run(std::integral_constant<Terms, Terms::kFloats>{});
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_UNIT_H_
