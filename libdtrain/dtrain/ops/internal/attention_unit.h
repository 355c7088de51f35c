// attention_unit.h - what the forward and the backward pass of attention share on CPUs.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. A unit is one (sequence, head). K and V are
// transposed once per unit, so that every product reads its right side in whole vectors; sequences
// of up to kKeyTile keys are a single tile. Where the processor multiplies pairs of bfloat16
// (Terms::kPairs; Terms::kTiles where it has a matrix unit), bfloat16 tensors are multiplied as
// they are, and what is computed in between is rounded to bfloat16 for products, as on GPUs; sums
// and the softmax are float32 in any case.
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

// Queries that are multiplied at once.
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

// Rows a multiple of 256 bytes apart would compete for the same few lines of the cache.
inline int64_t SpacedRow(int64_t floats) {
  const int64_t row = RoundUp(floats, kLanes);
  return row % 64 == 0 ? row + 16 : row;
}

// One (sequence, head), with the memory it works in.
template <typename T>
struct Unit {
  int64_t queries, keys, first_query, first_key;  // tokens
  int64_t padded_keys;                            // of right sides that sum over keys
  int64_t head, dim, padded_dim;
  int64_t tile_row;     // stride of score tiles and transposed keys
  int64_t tile_floats;  // one tile of transposed keys
  const T *q, *k, *v;
  float* scratch;  // what is left of it

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

// Fetches row i of what a unit reads: far from the row before, so that the processor does not.
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

// [keys, dim] as tiles of [terms of dim, tile_row].
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

// Ends a row of `vecs` vectors that were narrowed to pairs: a tile takes two at once.
template <Terms kTerms>
inline void EndPairs(float* pairs, int64_t vecs) {
  if (kTerms == Terms::kTiles && vecs % 2 != 0) ZeroFloats(pairs + vecs * kLanes / 2, kLanes / 2);
}

// A row of a block's dS as pairs of keys; `to` may be `from`.
template <Terms kTerms>
inline void NarrowScores(const float* from, int64_t vecs, float* to) {
  NarrowRow(from, vecs, to);
  EndPairs<kTerms>(to, vecs);
}

// Queries [query, query + queries) against keys [key, key + keys), positions in the sequence.
struct Tile {
  int64_t query, queries, key, keys;
  bool causal;

  // Keys that some row of [row, row + rows) of the tile sees; not positive: none.
  int64_t Extent(int64_t row, int64_t rows) const {
    return causal ? Smaller(keys, query + row + rows - key) : keys;
  }
  int64_t Vecs(int64_t extent) const { return (extent + kLanes - 1) / kLanes; }
};

// The draws of a tile: [queries, row] of which Extent(0, queries) are used.
struct Draws {
  const uint16_t* data;
  int64_t row;
};

template <typename T>
inline Draws DrawTile(const AttentionArgs& args, const Unit<T>& u, const Tile& tile,
                      uint16_t* buffer) {
  if (args.dropout_threshold == 0) return {buffer, 0};
  const int64_t blocks = (tile.Extent(0, tile.queries) + 7) / 8;
  constexpr int64_t kBlocks = kDropoutKeys / 8;
  const int64_t row_blocks = args.num_heads * kBlocks;
  const int64_t number = args.row_numbers == nullptr || u.queries == 0
                             ? u.first_query
                             : args.row_numbers[u.first_query];
  const int64_t first = ((number + tile.query) * args.num_heads + u.head) * kBlocks + tile.key / 8;
  DrawDropout(args.dropout_key, static_cast<uint64_t>(first), tile.queries, blocks, row_blocks,
              buffer);
  return {buffer, blocks * 8};
}

inline Vec KeepFactor(const AttentionArgs& args, const uint16_t* draws) {
  return KeepScale(draws, args.dropout_threshold, args.dropout_scale);
}

// Whether tensors may be read as pairs: heads and strides are whole ones. (A forward pass has no
// d_out, and a stride of 0.)
inline bool ReadsPairs(const AttentionArgs& args) {
  const int64_t extents =
      args.head_dim | args.q_stride | args.k_stride | args.v_stride | args.d_out_stride;
  return extents % 2 == 0;
}

// Whether the matrix unit may multiply them: heads are whole tiles.
inline bool FillsTiles(const AttentionArgs& args) {
  return BestCpuIsa() >= CpuIsa::kAmxBf16 && args.head_dim % (2 * kTileSide) == 0;
}

// Calls run(terms), whose value is what the tensors and the processor allow.
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
