// attention_cpu.cc - attention of one (sequence, head) at a time, in tiles that stay in the cache.
// SPDX-License-Identifier: Apache-2.0
//
// Forward, per tile of queries and tile of keys (m, l: running maximum and sum of a row):
//   S = scale Q K^T;  P = exp(S - m);  O = O exp(m_old - m) + dropout(P) V
//   out = O / l;  log_sum_exp = m + log l
// Backward (Dao et al. 2022, algorithm 4), with D_i = sum_d dO_id O_id:
//   P = exp(S - log_sum_exp);  dP = dO V^T;  dS = scale P (mask dP - D)
//   dV += dropout(P)^T dO;  dK += dS^T Q;  dQ += dS K
// K and V are transposed once per unit, so that every product reads its right side in whole
// vectors; sequences of up to kKeyTile keys are a single tile. Where the processor multiplies pairs
// of bfloat16 (Terms::kPairs; Terms::kTiles where it has a matrix unit), bfloat16 tensors are
// multiplied as they are, and P and dS are rounded to bfloat16 in between, as on GPUs; sums and the
// softmax are float32 in any case.
#include "dtrain/base/cpu_isa.h"
#include "dtrain/ops/internal/attention_kernel.h"
#include "dtrain/ops/internal/small_matrix.h"
#include "dtrain/ops/internal/tile_matrix.h"

namespace dtrain::DT_CPU_ISA {
namespace {

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
Unit<T> MakeUnit(const AttentionArgs& args, int64_t index) {
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
const float* TransposeTiles(Unit<T>& u, const T* from, int64_t stride) {
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
Draws DrawTile(const AttentionArgs& args, const Unit<T>& u, const Tile& tile, uint16_t* buffer) {
  if (args.dropout_threshold == 0) return {buffer, 0};
  const int64_t blocks = (tile.Extent(0, tile.queries) + 7) / 8;
  const int64_t row_blocks = args.num_heads * args.max_keys / 8;
  const int64_t first =
      ((u.first_query + tile.query) * args.num_heads + u.head) * args.max_keys / 8 + tile.key / 8;
  DrawDropout(args.dropout_key, static_cast<uint64_t>(first), tile.queries, blocks, row_blocks,
              buffer);
  return {buffer, blocks * 8};
}

inline Vec KeepFactor(const AttentionArgs& args, const uint16_t* draws) {
  return KeepScale(draws, args.dropout_threshold, args.dropout_scale);
}

// ---- forward -----------------------------------------------------------------------------------

// A row of the forward softmax while it goes from one tile of keys to the next.
struct SoftmaxRow {
  float maximum, sum;
};

// The largest of the first `valid` scores, scaled.
inline float LargestScore(const AttentionArgs& args, int64_t valid, const float* scores) {
  Vec largest = Broadcast(kMinusInfinity);
  int64_t column = 0;
  for (; column + kLanes <= valid; column += kLanes) {
    largest = Max(largest, Load(scores + column) * args.scale);
  }
  if (column < valid) {
    largest =
        Max(largest, Below(column, valid, Load(scores + column) * args.scale, kMinusInfinity));
  }
  return HorizontalMax(largest);
}

// Scores, of which `here` is the largest, -> probabilities with dropout, in place, `valid` elements
// of `vecs` vectors; as pairs of keys where terms are these.
template <Terms kTerms>
void ForwardRow(const AttentionArgs& args, float here, int64_t valid, int64_t vecs,
                const uint16_t* draws, float* scores, SoftmaxRow& state, float* out,
                int64_t out_columns) {
  const float maximum = here > state.maximum ? here : state.maximum;
  // Where all scores so far are -infinity, -inf - -inf would be NaN, also for the keys to come.
  const float shift = maximum > kMinusInfinity ? maximum : 0.0f;
  Vec sum{};
  for (int64_t v = 0; v < vecs; ++v) {
    const Vec x =
        Below(v * kLanes, valid, Load(scores + v * kLanes) * args.scale - shift, kMinusInfinity);
    Vec p = kTerms == Terms::kFloats ? Exp(x) : RoundedExp(x);
    sum += p;
    if (args.dropout_threshold != 0) p *= KeepFactor(args, draws + v * kLanes);
    if constexpr (kTerms == Terms::kFloats) {
      Store(scores + v * kLanes, p);
    } else {
      Store(reinterpret_cast<BFloat16*>(scores) + v * kLanes, p);
    }
  }
  if constexpr (kTerms != Terms::kFloats) EndPairs<kTerms>(scores, vecs);
  if (state.sum != 0.0f) {
    const float shrink = Exp(Broadcast(state.maximum - maximum))[0];
    state.sum *= shrink;
    for (int64_t c = 0; c < out_columns; c += kLanes) Store(out + c, Load(out + c) * shrink);
  }
  state.maximum = maximum;
  state.sum += HorizontalSum(sum);
}

struct ForwardMemory {
  const float* k_tiles;
  FloatRows v;
  float* scores;
  float* out;  // [kQueryTile, padded_dim]
  uint16_t* draws;
  SoftmaxRow rows[kQueryTile];
};

// `next` is the unit to come, or this one again.
template <Terms kTerms, typename T>
void ForwardTile(const AttentionArgs& args, const Unit<T>& u, const Unit<T>& next, const Tile& tile,
                 const FloatRows& q, ForwardMemory& memory) {
  const Draws draws = DrawTile(args, u, tile, memory.draws);
  const float* const k_tile = memory.k_tiles + tile.key / kKeyTile * u.tile_floats;
  const float* const v = memory.v.data + tile.key / kPack<kTerms> * memory.v.row;
  for (int64_t row = 0; row < tile.queries; row += kRowsAtOnce<kTerms>) {
    const int64_t rows = Smaller(kRowsAtOnce<kTerms>, tile.queries - row);
    const int64_t extent = tile.Extent(row, rows);
    if (extent <= 0) continue;
    const int64_t vecs = tile.Vecs(extent);
    MultiplyBlock<false, kTerms>(
        rows, {q.data + row * q.row, q.row, 1, k_tile, u.tile_row, memory.scores, u.tile_row},
        u.dim / kPack<kTerms>, vecs);
    // All rows' maxima first: each takes a chain of shuffles that exponentials would wait for.
    float largest[kRowsAtOnce<kTerms>];
    for (int64_t r = 0; r < rows; ++r) {
      largest[r] = LargestScore(args, tile.Extent(row + r, 1), memory.scores + r * u.tile_row);
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* const scores = memory.scores + r * u.tile_row;
      const int64_t valid = tile.Extent(row + r, 1);
      if (valid <= 0) {
        for (int64_t i = 0; i < vecs; ++i) Store(scores + i * kLanes, Vec{});
        continue;
      }
      if (tile.key == 0) FetchRow(args, next, tile.query + row + r);
      ForwardRow<kTerms>(args, largest[r], valid, vecs, draws.data + (row + r) * draws.row, scores,
                         memory.rows[row + r], memory.out + (row + r) * u.padded_dim, u.padded_dim);
    }
    const Product product = {
        memory.scores, u.tile_row, 1, v, memory.v.row, memory.out + row * u.padded_dim,
        u.padded_dim};
    const int64_t terms = TermsOf<kTerms>(extent);
    const int64_t out_vecs = u.padded_dim / kLanes;
    tile.key == 0 ? MultiplyBlock<false, kTerms>(rows, product, terms, out_vecs)
                  : MultiplyBlock<true, kTerms>(rows, product, terms, out_vecs);
  }
}

template <Terms kTerms, typename T>
void ForwardUnit(const AttentionArgs& args, int64_t index) {
  Unit<T> u = MakeUnit<T>(args, index);
  if (u.queries == 0) return;
  const Unit<T> next = MakeUnit<T>(args, index + 1 < args.last_unit ? index + 1 : index);
  ForwardMemory memory;
  memory.k_tiles = TransposeTiles<kTerms>(u, u.k, args.k_stride);
  memory.v =
      RightRows<kTerms>(u.v, args.v_stride, u.keys, u.dim, u.Take(u.padded_keys * u.padded_dim));
  memory.scores = u.Take(kRowsAtOnce<kTerms> * u.tile_row);
  memory.out = u.Take(kQueryTile * u.padded_dim);
  float* const q_copy = u.Take(kQueryTile * u.padded_dim);
  memory.draws = reinterpret_cast<uint16_t*>(u.scratch);
  for (int64_t query = 0; query < u.queries; query += kQueryTile) {
    const int64_t queries = Smaller(kQueryTile, u.queries - query);
    const FloatRows q =
        LeftRows<kTerms>(u.q + query * args.q_stride, args.q_stride, queries, u.dim, q_copy);
    for (int64_t r = 0; r < queries; ++r) memory.rows[r] = {kMinusInfinity, 0.0f};
    for (int64_t key = 0; key < u.keys; key += kKeyTile) {
      const Tile tile = {query, queries, key, Smaller(kKeyTile, u.keys - key), args.causal};
      if (tile.Extent(0, queries) <= 0) break;
      ForwardTile<kTerms>(args, u, next, tile, q, memory);
    }
    for (int64_t r = 0; r < queries; ++r) {
      const int64_t token = u.first_query + query + r;
      const SoftmaxRow& row = memory.rows[r];
      StoreRow(memory.out + r * u.padded_dim, 1.0f / row.sum, u.dim,
               static_cast<T*>(args.out) + token * args.out_stride + u.head * u.dim);
      args.log_sum_exp[token * args.num_heads + u.head] = row.maximum + __builtin_logf(row.sum);
    }
  }
}

// ---- backward ----------------------------------------------------------------------------------

struct BackwardMemory {
  const float* k_tiles;
  const float* v_tiles;
  FloatRows k;
  // [kQueryTile, tile_row]: scores, then dropout(P); pairs of queries lie in every other row.
  float* p;
  float* ds;  // likewise: dP, then dS
  float*
      ds_rows;  // of a block, dS as a left side: in pairs [kRowsAtOnce, tile_row], else ds itself
  float* dq;    // [kQueryTile, padded_dim]
  float* dk;    // [keys, padded_dim]; of tiles the transposed [padded_dim, keys]
  float* dv;
  int64_t d_row;  // stride of these
  uint16_t* draws;
  float log_sum_exp[kQueryTile];
  float delta[kQueryTile];
};

struct BackwardRowArgs {
  float log_sum_exp, delta;
  int64_t valid, vecs, tile_vecs;
  const uint16_t* draws;
};

// p: scores -> dropout(P), ds: dP -> dS; both 0 from `valid` to the end of the tile, where the
// products over queries may look.
template <Terms kTerms>
void BackwardRow(const AttentionArgs& args, const BackwardRowArgs& row, float* p, float* ds) {
  int64_t v = 0;
  for (; v < row.vecs; ++v) {
    const int64_t column = v * kLanes;
    const Vec x = Load(p + column) * args.scale - row.log_sum_exp;
    const Vec probability =
        Below(column, row.valid, kTerms == Terms::kFloats ? Exp(x) : RoundedExp(x), 0.0f);
    Vec kept = probability;
    Vec d_probability = Below(column, row.valid, Load(ds + column), 0.0f);
    if (args.dropout_threshold != 0) {
      const Vec keep = KeepFactor(args, row.draws + column);
      kept *= keep;
      d_probability *= keep;
    }
    Store(p + column, kept);
    Store(ds + column, probability * (d_probability - row.delta) * args.scale);
  }
  for (; v < row.tile_vecs; ++v) {
    Store(p + v * kLanes, Vec{});
    Store(ds + v * kLanes, Vec{});
  }
}

// Queries and gradients of the output, as left sides and as right sides; of tiles also the right
// sides transposed.
struct QuerySides {
  FloatRows q, d_out;
  FloatRows right_q, right_d_out;
  FloatRows transposed_q, transposed_d_out;
};

// The products over the queries of a tile: dV += dropout(P)^T dO, dK += dS^T Q.
template <Terms kTerms, typename T>
void AddKeyGradients(const Unit<T>& u, const Tile& tile, const QuerySides& queries,
                     const BackwardMemory& memory) {
  const FloatRows& q = queries.right_q;
  const FloatRows& d_out = queries.right_d_out;
  const int64_t extent = tile.Extent(0, tile.queries);
  const int64_t dim_vecs = u.padded_dim / kLanes;
  for (int64_t row = 0; row < extent; row += kBlockRows) {
    const int rows = static_cast<int>(Smaller(kBlockRows, extent - row));
    // Queries before the first of these keys do not see them.
    const int64_t unseen = tile.causal ? Larger(0, tile.key + row - tile.query) : 0;
    const int64_t first = unseen / kPack<kTerms>;
    const int64_t step = kPack<kTerms> * u.tile_row;
    const int64_t at = first * step + row;
    const int64_t to = (tile.key + row) * u.padded_dim;
    const int64_t depth = TermsOf<kTerms>(tile.queries) - first;
    Multiply<true, kTerms>(rows,
                           {memory.p + at, 1, step, d_out.data + first * d_out.row, d_out.row,
                            memory.dv + to, u.padded_dim},
                           depth, dim_vecs);
    Multiply<true, kTerms>(
        rows,
        {memory.ds + at, 1, step, q.data + first * q.row, q.row, memory.dk + to, u.padded_dim},
        depth, dim_vecs);
  }
}

// The same where P and dS are pairs of queries, which tiles take as right sides:
//   dV^T += dO^T dropout(P), dK^T += Q^T dS.
template <typename T>
void AddTransposedKeyGradients(const Unit<T>& u, const Tile& tile, const QuerySides& queries,
                               const BackwardMemory& memory) {
  const int64_t vecs = tile.Vecs(tile.Extent(0, tile.queries));
  const int64_t step = 2 * u.tile_row;
  const FloatRows& d_out = queries.transposed_d_out;
  const FloatRows& q = queries.transposed_q;
  MultiplyByTiles<true>(
      u.dim, {d_out.data, d_out.row, 1, memory.p, step, memory.dv + tile.key, memory.d_row},
      kTileSide, vecs);
  MultiplyByTiles<true>(u.dim,
                        {q.data, q.row, 1, memory.ds, step, memory.dk + tile.key, memory.d_row},
                        kTileSide, vecs);
}

// A block's dropout(P) and dS as pairs of queries, and its dS as pairs of keys in memory.ds_rows.
template <Terms kTerms>
inline void PairBlock(int64_t rows, int64_t vecs, int64_t tile_row, float* p, float* ds,
                      float* ds_rows) {
  for (int64_t r = 0; r < rows; ++r) {
    NarrowScores<kTerms>(ds + r * tile_row, vecs, ds_rows + r * tile_row);
  }
  for (int64_t r = 0; r < rows; r += 2) {
    const int64_t low = r * tile_row;
    const bool has_high = r + 1 < rows;
    PairFloatRows(p + low, has_high ? p + low + tile_row : nullptr, vecs, p + low);
    PairFloatRows(ds + low, has_high ? ds + low + tile_row : nullptr, vecs, ds + low);
  }
  if constexpr (kTerms == Terms::kTiles) {
    for (int64_t r = RoundUp(rows, 2); r < 2 * kTileSide; r += 2) {
      ZeroFloats(p + r * tile_row, vecs * kLanes);
      ZeroFloats(ds + r * tile_row, vecs * kLanes);
    }
  }
}

template <Terms kTerms, typename T>
void BackwardTile(const AttentionArgs& args, const Unit<T>& u, const Tile& tile,
                  const QuerySides& queries, const BackwardMemory& memory) {
  const FloatRows& q = queries.q;
  const FloatRows& d_out = queries.d_out;
  const Draws draws = DrawTile(args, u, tile, memory.draws);
  const int64_t tile_offset = tile.key / kKeyTile * u.tile_floats;
  for (int64_t row = 0; row < tile.queries; row += kRowsAtOnce<kTerms>) {
    const int64_t rows = Smaller(kRowsAtOnce<kTerms>, tile.queries - row);
    const int64_t extent = Larger(0, tile.Extent(row, rows));
    const int64_t vecs = tile.Vecs(extent);
    float* const p = memory.p + row * u.tile_row;
    float* const ds = memory.ds + row * u.tile_row;
    const int64_t depth = u.dim / kPack<kTerms>;
    MultiplyBlock<false, kTerms>(
        rows,
        {q.data + row * q.row, q.row, 1, memory.k_tiles + tile_offset, u.tile_row, p, u.tile_row},
        depth, vecs);
    MultiplyBlock<false, kTerms>(rows,
                                 {d_out.data + row * d_out.row, d_out.row, 1,
                                  memory.v_tiles + tile_offset, u.tile_row, ds, u.tile_row},
                                 depth, vecs);
    for (int64_t r = 0; r < rows; ++r) {
      BackwardRow<kTerms>(
          args,
          {memory.log_sum_exp[row + r], memory.delta[row + r], tile.Extent(row + r, 1), vecs,
           tile.Vecs(tile.keys), draws.data + (row + r) * draws.row},
          p + r * u.tile_row, ds + r * u.tile_row);
    }
    const float* left = ds;
    if constexpr (kTerms != Terms::kFloats) {
      PairBlock<kTerms>(rows, tile.Vecs(tile.keys), u.tile_row, p, ds, memory.ds_rows);
      left = memory.ds_rows;
    }
    MultiplyBlock<true, kTerms>(
        rows,
        {left, u.tile_row, 1, memory.k.data + tile.key / kPack<kTerms> * memory.k.row, memory.k.row,
         memory.dq + row * u.padded_dim, u.padded_dim},
        TermsOf<kTerms>(extent), u.padded_dim / kLanes);
  }
  if constexpr (kTerms == Terms::kTiles) {
    AddTransposedKeyGradients(u, tile, queries, memory);
  } else {
    AddKeyGradients<kTerms>(u, tile, queries, memory);
  }
}

template <Terms kTerms, typename T>
BackwardMemory MakeBackwardMemory(const AttentionArgs& args, Unit<T>& u) {
  BackwardMemory memory;
  memory.k_tiles = TransposeTiles<kTerms>(u, u.k, args.k_stride);
  memory.v_tiles = TransposeTiles<kTerms>(u, u.v, args.v_stride);
  memory.k =
      RightRows<kTerms>(u.k, args.k_stride, u.keys, u.dim, u.Take(u.padded_keys * u.padded_dim));
  memory.p = u.Take(kQueryTile * u.tile_row);
  memory.ds = u.Take(kQueryTile * u.tile_row);
  memory.ds_rows = kTerms == Terms::kFloats ? nullptr : u.Take(kRowsAtOnce<kTerms> * u.tile_row);
  memory.dq = u.Take(kQueryTile * u.padded_dim);
  memory.d_row = kTerms == Terms::kTiles ? SpacedRow(u.keys) : u.padded_dim;
  const int64_t d_floats = memory.d_row * (kTerms == Terms::kTiles ? u.dim : u.keys);
  memory.dk = u.Take(d_floats);
  memory.dv = u.Take(d_floats);
  ZeroFloats(memory.dk, d_floats);
  ZeroFloats(memory.dv, d_floats);
  return memory;
}

// Pairs of a tile of queries, [16, dim], as [dim, 16].
inline FloatRows TransposePairs(const FloatRows& pairs, int64_t dim, float* to) {
  TransposeCopy(pairs.data, pairs.row, kTileSide, dim, to, kTileSide);
  return {to, kTileSide};
}

template <Terms kTerms, typename T>
void BackwardQueries(const AttentionArgs& args, const Unit<T>& u, int64_t query, int64_t queries,
                     float* copies, BackwardMemory& memory) {
  const int64_t token = u.first_query + query;
  const int64_t column = u.head * u.dim;
  const T* const d_out_rows =
      static_cast<const T*>(args.d_out) + token * args.d_out_stride + column;
  const T* const out_rows = static_cast<const T*>(args.out) + token * args.out_stride + column;
  const T* const q_rows = u.q + query * args.q_stride;
  float* const d_out_copies = copies + kQueryTile * u.padded_dim;
  QuerySides sides;
  sides.right_q = RightRows<kTerms>(q_rows, args.q_stride, queries, u.dim, copies);
  sides.right_d_out =
      RightRows<kTerms>(d_out_rows, args.d_out_stride, queries, u.dim, d_out_copies);
  float* const left_copies = d_out_copies + kQueryTile * u.padded_dim;
  if constexpr (kTerms == Terms::kFloats) {
    sides.q = sides.right_q;
    sides.d_out = sides.right_d_out;
  } else {
    const int64_t half = kQueryTile * u.dim / 2;
    sides.q = LeftRows<kTerms>(q_rows, args.q_stride, queries, u.dim, left_copies);
    sides.d_out =
        LeftRows<kTerms>(d_out_rows, args.d_out_stride, queries, u.dim, left_copies + half);
    if constexpr (kTerms == Terms::kTiles) {
      sides.transposed_q = TransposePairs(sides.right_q, u.dim, left_copies + 2 * half);
      sides.transposed_d_out = TransposePairs(sides.right_d_out, u.dim, left_copies + 3 * half);
    }
  }
  for (int64_t r = 0; r < queries; ++r) {
    memory.log_sum_exp[r] = args.log_sum_exp[(token + r) * args.num_heads + u.head];
    memory.delta[r] =
        Dot(d_out_rows + r * args.d_out_stride, out_rows + r * args.out_stride, u.dim);
  }
  for (int64_t i = 0; i < queries * u.padded_dim; i += kLanes) Store(memory.dq + i, Vec{});
  for (int64_t key = 0; key < u.keys; key += kKeyTile) {
    const Tile tile = {query, queries, key, Smaller(kKeyTile, u.keys - key), args.causal};
    if (tile.Extent(0, queries) <= 0) break;
    BackwardTile<kTerms>(args, u, tile, sides, memory);
  }
  for (int64_t r = 0; r < queries; ++r) {
    StoreRow(memory.dq + r * u.padded_dim, 1.0f, u.dim,
             static_cast<T*>(args.dq) + (token + r) * args.dq_stride + column);
  }
}

// dK or dV from [keys, row] or, of tiles, [dim, row]; `block` holds [16, dim].
template <Terms kTerms, typename T>
void StoreKeyGradients(const Unit<T>& u, const float* from, int64_t row, float* block, T* to,
                       int64_t stride) {
  if constexpr (kTerms == Terms::kTiles) {
    for (int64_t key = 0; key < u.keys; key += kLanes) {
      TransposeCopy(from + key, row, u.dim, kLanes, block, u.dim);
      const int64_t keys = Smaller(kLanes, u.keys - key);
      for (int64_t r = 0; r < keys; ++r) {
        StoreRow(block + r * u.dim, 1.0f, u.dim, to + (key + r) * stride);
      }
    }
  } else {
    for (int64_t r = 0; r < u.keys; ++r) {
      StoreRow(from + r * row, 1.0f, u.dim, to + r * stride);
    }
  }
}

template <Terms kTerms, typename T>
void BackwardUnit(const AttentionArgs& args, int64_t index) {
  Unit<T> u = MakeUnit<T>(args, index);
  BackwardMemory memory = MakeBackwardMemory<kTerms>(args, u);
  float* const copies = u.Take(4 * kQueryTile * u.padded_dim);
  memory.draws = reinterpret_cast<uint16_t*>(u.scratch);
  for (int64_t query = 0; query < u.queries; query += kQueryTile) {
    BackwardQueries<kTerms>(args, u, query, Smaller(kQueryTile, u.queries - query), copies, memory);
  }
  const int64_t column = u.head * u.dim;
  T* const dk = static_cast<T*>(args.dk) + u.first_key * args.dk_stride + column;
  T* const dv = static_cast<T*>(args.dv) + u.first_key * args.dv_stride + column;
  StoreKeyGradients<kTerms>(u, memory.dk, memory.d_row, copies, dk, args.dk_stride);
  StoreKeyGradients<kTerms>(u, memory.dv, memory.d_row, copies, dv, args.dv_stride);
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

template <Terms kTerms, typename T>
void ForwardUnits(const AttentionArgs& args) {
  for (int64_t i = args.first_unit; i < args.last_unit; ++i) ForwardUnit<kTerms, T>(args, i);
}

template <Terms kTerms, typename T>
void BackwardUnits(const AttentionArgs& args) {
  for (int64_t i = args.first_unit; i < args.last_unit; ++i) BackwardUnit<kTerms, T>(args, i);
}

}  // namespace

template <typename T>
void AttentionForwardKernel(const AttentionArgs& args) {
  if constexpr (kHasPairs && sizeof(T) == sizeof(BFloat16)) {
    if constexpr (kHasTiles) {
      if (ReadsPairs(args) && FillsTiles(args)) {
        const TileScope scope;
        return ForwardUnits<Terms::kTiles, T>(args);
      }
    }
    if (ReadsPairs(args)) return ForwardUnits<Terms::kPairs, T>(args);
  }
  ForwardUnits<Terms::kFloats, T>(args);
}

template <typename T>
void AttentionBackwardKernel(const AttentionArgs& args) {
  if constexpr (kHasPairs && sizeof(T) == sizeof(BFloat16)) {
    if constexpr (kHasTiles) {
      if (ReadsPairs(args) && FillsTiles(args)) {
        const TileScope scope;
        return BackwardUnits<Terms::kTiles, T>(args);
      }
    }
    if (ReadsPairs(args)) return BackwardUnits<Terms::kPairs, T>(args);
  }
  BackwardUnits<Terms::kFloats, T>(args);
}

template void AttentionForwardKernel<float>(const AttentionArgs&);
template void AttentionForwardKernel<BFloat16>(const AttentionArgs&);
template void AttentionBackwardKernel<float>(const AttentionArgs&);
template void AttentionBackwardKernel<BFloat16>(const AttentionArgs&);

}  // namespace dtrain::DT_CPU_ISA
