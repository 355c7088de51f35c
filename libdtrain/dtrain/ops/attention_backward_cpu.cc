// attention_backward_cpu.cc - gradients of attention on the CPU, one (sequence, head) at a time.
// SPDX-License-Identifier: Apache-2.0
//
// Here with products of pairs of bfloat16, by the formulas of attention_backward_floats.h. The
// outer loop is over tiles of queries (Dao et al. 2022, algorithm 4).
#include "dtrain/ops/internal/attention_backward_floats.h"

namespace dtrain::DT_CPU_ISA {
namespace {

struct BackwardMemory {
  const float* k_tiles;
  const float* v_tiles;
  FloatRows k;
  // [kQueryTile, tile_row]: first scores, then dropout(P). Pairs of queries are in every other row.
  float* p;
  float* ds;  // same layout: first dP, then dS
  // A block's dS as pairs, to be the left side of a product: [kRowsAtOnce, tile_row].
  float* ds_rows;
  float* dq;      // [kQueryTile, padded_dim]
  float* dk;      // [keys, padded_dim]; with tiles the transpose [dim, keys]
  float* dv;      // same layout as dk
  int64_t d_row;  // stride of dk and dv
  uint16_t* draws;
  float log_sum_exp[kQueryTile];
  float delta[kQueryTile];
};

struct BackwardRowArgs {
  float log_sum_exp, delta;
  // Seen by the row, computed for it, and computed for any row of the tile.
  Columns seen, computed, tile;
  const uint16_t* draws;
};

// Turns p from scores into dropout(P), and ds from dP into dS. In columns of the tile that the row
// does not see both become 0, because products over queries read them. (A processor without pairs
// never calls it.)
[[maybe_unused]] inline void BackwardRow(const AttentionArgs& args, const BackwardRowArgs& row,
                                         float* p, float* ds) {
  const auto clear = [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; column += kLanes) {
      Store(p + column, Vec{});
      Store(ds + column, Vec{});
    }
  };
  clear(row.tile.begin, row.computed.begin);
  int64_t column = row.computed.begin;
  for (; column < row.computed.end; column += kLanes) {
    const Vec x = Load(p + column) * args.scale - row.log_sum_exp;
    const Vec probability = Within(column, row.seen, RoundedExp2(x * kLog2E), 0.0f);
    Vec kept = probability;
    Vec d_probability = Within(column, row.seen, Load(ds + column), 0.0f);
    if (args.dropout_threshold != 0) {
      const Vec keep = KeepFactor(args, row.draws + column);
      kept *= keep;
      d_probability *= keep;
    }
    Store(p + column, kept);
    Store(ds + column, probability * (d_probability - row.delta) * args.scale);
  }
  clear(column, row.tile.end);
}

// Queries and output gradients as left and right sides of products; with tiles, also the transposed
// right sides.
struct QuerySides {
  FloatRows q, d_out;
  FloatRows right_q, right_d_out;
  FloatRows transposed_q, transposed_d_out;
};

// The products over the queries of a tile, for its columns `computed`: dV += dropout(P)^T dO, dK +=
// dS^T Q.
template <Terms kTerms, typename T>
void AddKeyGradients(const Unit<T>& u, const Tile& tile, const Columns& computed,
                     const QuerySides& queries, const BackwardMemory& memory) {
  const FloatRows& q = queries.right_q;
  const FloatRows& d_out = queries.right_d_out;
  const int64_t dim_vecs = u.padded_dim / kLanes;
  for (int64_t row = computed.begin; row < computed.end; row += kBlockRows) {
    const int rows = static_cast<int>(Smaller(kBlockRows, computed.end - row));
    // The tile's queries that see some of these keys.
    const int64_t position = tile.key + row - tile.query;
    const int64_t begin = Larger(0, position - tile.after);
    const int64_t end = Smaller(tile.queries, position + rows + tile.before);
    if (begin >= end) continue;
    const int64_t first = begin / kPack<kTerms>;
    const int64_t step = kPack<kTerms> * u.tile_row;
    const int64_t at = first * step + row;
    const int64_t to = (tile.key + row) * u.padded_dim;
    const int64_t depth = TermsOf<kTerms>(end) - first;
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

// AddKeyGradients() for P and dS as pairs of queries, which tiles use as right sides:
//   dV^T += dO^T dropout(P), dK^T += Q^T dS.
template <typename T>
void AddTransposedKeyGradients(const Unit<T>& u, const Tile& tile, const Columns& computed,
                               const QuerySides& queries, const BackwardMemory& memory) {
  const int64_t from = computed.begin;
  const int64_t to = tile.key + from;
  const int64_t step = 2 * u.tile_row;
  const FloatRows& d_out = queries.transposed_d_out;
  const FloatRows& q = queries.transposed_q;
  MultiplyByTiles<true>(
      u.dim, {d_out.data, d_out.row, 1, memory.p + from, step, memory.dv + to, memory.d_row},
      kTileSide, computed.vecs());
  MultiplyByTiles<true>(u.dim,
                        {q.data, q.row, 1, memory.ds + from, step, memory.dk + to, memory.d_row},
                        kTileSide, computed.vecs());
}

// Turns `vecs` vectors of a block's dropout(P) and dS into pairs of queries.
template <Terms kTerms>
inline void PairBlock(int64_t rows, int64_t vecs, int64_t tile_row, float* p, float* ds) {
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
  const Columns of_tile = tile.Computed<kTerms>(0, tile.queries);
  for (int64_t row = 0; row < tile.queries; row += kRowsAtOnce<kTerms>) {
    const int64_t rows = Smaller(kRowsAtOnce<kTerms>, tile.queries - row);
    Columns computed = tile.Computed<kTerms>(row, rows);
    if (computed.count() == 0) computed = {of_tile.begin, of_tile.begin};
    const int64_t from = computed.begin;
    const int64_t vecs = computed.vecs();
    float* const p = memory.p + row * u.tile_row;
    float* const ds = memory.ds + row * u.tile_row;
    const int64_t depth = u.dim / kPack<kTerms>;
    const int64_t tile_offset = tile.key / kKeyTile * u.tile_floats + from;
    MultiplyBlock<false, kTerms>(rows,
                                 {q.data + row * q.row, q.row, 1, memory.k_tiles + tile_offset,
                                  u.tile_row, p + from, u.tile_row},
                                 depth, vecs);
    MultiplyBlock<false, kTerms>(rows,
                                 {d_out.data + row * d_out.row, d_out.row, 1,
                                  memory.v_tiles + tile_offset, u.tile_row, ds + from, u.tile_row},
                                 depth, vecs);
    for (int64_t r = 0; r < rows; ++r) {
      BackwardRow(args,
                  {memory.log_sum_exp[row + r], memory.delta[row + r], tile.Seen(row + r, 1),
                   computed, of_tile, draws.data + (row + r) * draws.row},
                  p + r * u.tile_row, ds + r * u.tile_row);
    }
    for (int64_t r = 0; r < rows; ++r) {
      NarrowScores<kTerms>(ds + from + r * u.tile_row, vecs, memory.ds_rows + r * u.tile_row);
    }
    PairBlock<kTerms>(rows, of_tile.vecs(), u.tile_row, p + of_tile.begin, ds + of_tile.begin);
    const float* const k = memory.k.data + (tile.key + from) / kPack<kTerms> * memory.k.row;
    MultiplyBlock<true, kTerms>(rows,
                                {memory.ds_rows, u.tile_row, 1, k, memory.k.row,
                                 memory.dq + row * u.padded_dim, u.padded_dim},
                                TermsOf<kTerms>(computed.count()), u.padded_dim / kLanes);
  }
  if constexpr (kTerms == Terms::kTiles) {
    AddTransposedKeyGradients(u, tile, of_tile, queries, memory);
  } else {
    AddKeyGradients<kTerms>(u, tile, of_tile, queries, memory);
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
  memory.ds_rows = u.Take(kRowsAtOnce<kTerms> * u.tile_row);
  memory.dq = u.Take(kQueryTile * u.padded_dim);
  memory.d_row = kTerms == Terms::kTiles ? SpacedRow(u.keys) : u.padded_dim;
  const int64_t d_floats = memory.d_row * (kTerms == Terms::kTiles ? u.dim : u.keys);
  memory.dk = u.Take(d_floats);
  memory.dv = u.Take(d_floats);
  ZeroFloats(memory.dk, d_floats);
  ZeroFloats(memory.dv, d_floats);
  return memory;
}

// Transposes the pairs of a tile of queries from [16, dim] to [dim, 16].
[[maybe_unused]] inline FloatRows TransposePairs(const FloatRows& pairs, int64_t dim, float* to) {
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
  const int64_t half = kQueryTile * u.dim / 2;
  sides.q = LeftRows<kTerms>(q_rows, args.q_stride, queries, u.dim, left_copies);
  sides.d_out = LeftRows<kTerms>(d_out_rows, args.d_out_stride, queries, u.dim, left_copies + half);
  if constexpr (kTerms == Terms::kTiles) {
    sides.transposed_q = TransposePairs(sides.right_q, u.dim, left_copies + 2 * half);
    sides.transposed_d_out = TransposePairs(sides.right_d_out, u.dim, left_copies + 3 * half);
  }
  for (int64_t r = 0; r < queries; ++r) {
    memory.log_sum_exp[r] = args.log_sum_exp[(token + r) * args.num_heads + u.head];
    memory.delta[r] =
        Dot(d_out_rows + r * args.d_out_stride, out_rows + r * args.out_stride, u.dim);
  }
  for (int64_t i = 0; i < queries * u.padded_dim; i += kLanes) Store(memory.dq + i, Vec{});
  ForEachTile(args, u, query, queries,
              [&](const Tile& tile) { BackwardTile<kTerms>(args, u, tile, sides, memory); });
  for (int64_t r = 0; r < queries; ++r) {
    StoreRow(memory.dq + r * u.padded_dim, 1.0f, u.dim,
             static_cast<T*>(args.dq) + (token + r) * args.dq_stride + column);
  }
}

// Stores dK or dV from [keys, row] or, with tiles, from [dim, row]. `block` is scratch of [16,
// dim].
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

}  // namespace

template <typename T>
void AttentionBackwardKernel(const AttentionArgs& args) {
  WithTerms<T>(args, [&](auto terms) {
    constexpr Terms kTerms = decltype(terms)::value;
    for (int64_t unit = args.first_unit; unit < args.last_unit; ++unit) {
      if constexpr (kTerms == Terms::kFloats) {
        FloatsBackwardUnit<T>(args, unit).Run();
      } else {
        BackwardUnit<kTerms, T>(args, unit);
      }
    }
  });
}

template void AttentionBackwardKernel<float>(const AttentionArgs&);
template void AttentionBackwardKernel<BFloat16>(const AttentionArgs&);

}  // namespace dtrain::DT_CPU_ISA
