// attention_unit.h - code that attention's forward and backward passes share on CPUs.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. A unit is one (sequence, head). K and V are
// transposed once per unit, so that every product reads its right operand in whole vectors.
// Sequences of up to kKeyTile keys are a single tile.
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

template <typename T>
inline Unit<T> MakeUnit(const AttentionArgs& args, int64_t index) {
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
  u.tile_row = SpacedRow(Smaller(u.keys, kKeyTile));
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
template <Terms kTerms, typename T>
inline const float* TransposeTiles(Unit<T>& u, const T* from, int64_t stride) {
  const int64_t tiles = (u.keys + kKeyTile - 1) / kKeyTile;
  float* const to = u.Take(tiles * u.tile_floats);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = t * kKeyTile;
    const int64_t keys = Smaller(kKeyTile, u.keys - first);
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

// Queries [query, query + queries) and keys [key, key + keys), as positions in the sequence.
struct Tile {
  int64_t query, queries, key, keys;
  bool causal;

  // Number of the tile's keys that some row of [row, row + rows) sees; 0 or negative if there are
  // none.
  int64_t Extent(int64_t row, int64_t rows) const {
    return causal ? Smaller(keys, query + row + rows - key) : keys;
  }
  int64_t Vecs(int64_t extent) const { return (extent + kLanes - 1) / kLanes; }
};

// The random bits of a tile: [queries, row], of which Extent(0, queries) columns are used.
struct Draws {
  const uint16_t* data;
  int64_t row;
};

template <typename T>
inline Draws DrawTile(const AttentionArgs& args, const Unit<T>& u, const Tile& tile,
                      uint16_t* buffer) {
  if (args.dropout_threshold == 0) return {buffer, 0};
  const int64_t extent = tile.Extent(0, tile.queries);
  const int64_t blocks = (extent + kDropoutBlock - 1) / kDropoutBlock;
  const int64_t row = RoundUp(blocks, 2) * kDropoutBlock;
  const int64_t number = args.row_numbers == nullptr || u.queries == 0
                             ? u.first_query
                             : args.row_numbers[u.first_query];
  for (int64_t query = 0; query < tile.queries; query += kDropoutBlock) {
    const int64_t first_row = (number + tile.query + query) * args.num_heads + u.head;
    DrawScores(args.dropout_key, static_cast<uint32_t>(first_row),
               static_cast<uint32_t>(args.num_heads), kDropoutDraws,
               static_cast<uint64_t>(tile.key / kDropoutBlock * 4), blocks, row,
               buffer + query * row);
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
        const TileScope scope;
        return run(std::integral_constant<Terms, Terms::kTiles>{});
      }
    }
    if (ReadsPairs(args)) return run(std::integral_constant<Terms, Terms::kPairs>{});
  }
  run(std::integral_constant<Terms, Terms::kFloats>{});
}

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_UNIT_H_
