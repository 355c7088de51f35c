// attention_forward_cpu.cc - attention of one (sequence, head) at a time, in tiles that fit caches.
// SPDX-License-Identifier: Apache-2.0
//
// Here with products of pairs of bfloat16, by the formulas of attention_forward_floats.h.
#include "dtrain/ops/internal/attention_forward_floats.h"
#include "dtrain/ops/internal/attention_forward_tiles.h"
#include "dtrain/ops/internal/attention_unit.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// The state of a row's softmax between two tiles of keys.
struct SoftmaxRow {
  float maximum, sum;
};

// Replaces scores by probabilities with dropout, as pairs of keys: `vecs` vectors, of which columns
// `seen` are not 0. `here` is the largest of these scores.
template <Terms kTerms>
void ForwardRow(const AttentionArgs& args, float here, const Columns& seen, int64_t vecs,
                const uint16_t* draws, float* scores, SoftmaxRow& state, float* out,
                int64_t out_columns) {
  const float maximum = here > state.maximum ? here : state.maximum;
  // If all scores so far are -infinity, the shift must not be: -inf - -inf is NaN, and would spread
  // to later keys.
  const float shift = maximum > kMinusInfinity ? maximum : 0.0f;
  Vec sum{};
  for (int64_t v = 0; v < vecs; ++v) {
    const Vec x =
        Within(v * kLanes, seen, Load(scores + v * kLanes) * args.scale - shift, kMinusInfinity);
    Vec p = RoundedExp2(x * kLog2E);
    sum += p;
    if (args.dropout_threshold != 0) p *= KeepFactor(args, draws + v * kLanes);
    Store(reinterpret_cast<BFloat16*>(scores) + v * kLanes, p);
  }
  EndPairs<kTerms>(scores, vecs);
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

// `next` is the following unit, empty after the last one.
template <Terms kTerms, typename T>
void ForwardTile(const AttentionArgs& args, const Unit<T>& u, const Unit<T>& next, const Tile& tile,
                 const FloatRows& q, ForwardMemory& memory) {
  const Draws draws = DrawTile(args, u, tile, memory.draws);
  const float* const k_tile = memory.k_tiles + tile.key / kKeyTile * u.tile_floats;
  for (int64_t row = 0; row < tile.queries; row += kRowsAtOnce<kTerms>) {
    const int64_t rows = Smaller(kRowsAtOnce<kTerms>, tile.queries - row);
    const Columns computed = tile.Computed<kTerms>(row, rows);
    if (computed.count() == 0) continue;
    const int64_t begin = computed.begin;  // column of the first score
    const int64_t vecs = computed.vecs();
    const bool is_first = tile.IsFirst(row);
    MultiplyBlock<false, kTerms>(
        rows,
        {q.data + row * q.row, q.row, 1, k_tile + begin, u.tile_row, memory.scores, u.tile_row},
        u.dim / kPack<kTerms>, vecs);
    // The maxima of all rows come first: each is a chain of shuffles that the exponentials would
    // have to wait for.
    float largest[kRowsAtOnce<kTerms>];
    for (int64_t r = 0; r < rows; ++r) {
      largest[r] =
          LargestScore(args, tile.Seen(row + r, 1).From(begin), memory.scores + r * u.tile_row);
    }
    for (int64_t r = 0; r < rows; ++r) {
      float* const scores = memory.scores + r * u.tile_row;
      const Columns seen = tile.Seen(row + r, 1).From(begin);
      if (is_first) FetchRow(args, next, tile.query + row + r);
      if (seen.count() == 0) {
        for (int64_t i = 0; i < vecs; ++i) Store(scores + i * kLanes, Vec{});
        continue;
      }
      ForwardRow<kTerms>(args, largest[r], seen, vecs, draws.data + (row + r) * draws.row + begin,
                         scores, memory.rows[row + r], memory.out + (row + r) * u.padded_dim,
                         u.padded_dim);
    }
    const float* const v = memory.v.data + (tile.key + begin) / kPack<kTerms> * memory.v.row;
    const Product product = {
        memory.scores, u.tile_row, 1, v, memory.v.row, memory.out + row * u.padded_dim,
        u.padded_dim};
    const int64_t terms = TermsOf<kTerms>(computed.count());
    const int64_t out_vecs = u.padded_dim / kLanes;
    is_first ? MultiplyBlock<false, kTerms>(rows, product, terms, out_vecs)
             : MultiplyBlock<true, kTerms>(rows, product, terms, out_vecs);
  }
}

template <Terms kTerms, typename T>
void ForwardUnit(const AttentionArgs& args, int64_t index) {
  Unit<T> u = MakeUnit<T>(args, index);
  if (u.queries == 0) return;
  const Unit<T> next = index + 1 < args.last_unit ? MakeUnit<T>(args, index + 1) : Unit<T>{};
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
    ForEachTile(args, u, query, queries,
                [&](const Tile& tile) { ForwardTile<kTerms>(args, u, next, tile, q, memory); });
    for (int64_t r = 0; r < queries; ++r) {
      const int64_t token = u.first_query + query + r;
      const SoftmaxRow& row = memory.rows[r];
      StoreRow(memory.out + r * u.padded_dim, 1.0f / row.sum, u.dim,
               static_cast<T*>(args.out) + token * args.out_stride + u.head * u.dim);
      args.log_sum_exp[token * args.num_heads + u.head] = row.maximum + __builtin_logf(row.sum);
    }
  }
}

}  // namespace

template <typename T>
void AttentionForwardKernel(const AttentionArgs& args) {
  WithTerms<T>(args, [&](auto terms) {
    constexpr Terms kTerms = decltype(terms)::value;
    for (int64_t unit = args.first_unit; unit < args.last_unit; ++unit) {
      if constexpr (kTerms == Terms::kFloats) {
        FloatsForwardUnit<T>(args, unit).Run();
      } else {
        if constexpr (kTerms == Terms::kTiles) {
          // If the AMX unit's sums leave their range, it returns false and the code below computes
          // the unit instead.
          if (TilesForwardUnit<T>(args, unit).Run()) continue;
        }
        ForwardUnit<kTerms, T>(args, unit);
      }
    }
  });
}

template void AttentionForwardKernel<float>(const AttentionArgs&);
template void AttentionForwardKernel<BFloat16>(const AttentionArgs&);

}  // namespace dtrain::DT_CPU_ISA
