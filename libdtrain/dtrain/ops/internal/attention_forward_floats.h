// attention_forward_floats.h - attention's forward pass on CPUs, with products of floats.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. For each tile of queries and tile of keys,
// where m and l are the running maximum and sum of a row:
//   S = scale Q K^T;  P = exp(S - m);  O = O exp(m_old - m) + dropout(P) V
//   out = O / l;  log_sum_exp = m + log l
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_FLOATS_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_FLOATS_H_

#include "dtrain/ops/internal/attention_float_tiles.h"

namespace dtrain::DT_CPU_ISA {

// One unit.
template <typename T>
class FloatsForwardUnit {
 public:
  FloatsForwardUnit(const AttentionArgs& args, int64_t index)
      : args_(args), u_(MakeUnit<T>(args, index, kFloatKeyTile)), row_(SpacedRow(u_.dim)) {
    if (index + 1 < args.last_unit) next_ = MakeUnit<T>(args, index + 1);
  }

  void Run() {
    if (u_.queries == 0) return;
    k_tiles_ = TransposeTiles<Terms::kFloats, kFloatKeyTile>(u_, u_.k, args_.k_stride);
    v_ = SpacedRows(u_.v, args_.v_stride, u_.keys, u_.dim, u_.Take(u_.keys * row_));
    scores_ = u_.Take(kFloatQueryTile * u_.tile_row);
    out_ = u_.Take(kFloatQueryTile * row_);
    float* const q_copy = u_.Take(kFloatQueryTile * row_);
    draws_ = reinterpret_cast<uint16_t*>(u_.scratch);
    for (int64_t query = 0; query < u_.queries; query += kFloatQueryTile) {
      const int64_t queries = Smaller(kFloatQueryTile, u_.queries - query);
      q_ = SpacedRows(u_.q + query * args_.q_stride, args_.q_stride, queries, u_.dim, q_copy);
      for (int64_t r = 0; r < queries; ++r) rows_[r] = {kMinusInfinity, 0.0f};
      ForEachTile<kFloatKeyTile>(args_, u_, query, queries,
                                 [&](const Tile& tile) { AddTile(tile); });
      StoreRows(query, queries);
    }
  }

 private:
  // The state of a row's softmax between two tiles of keys.
  struct SoftmaxRow {
    float maximum, sum;
  };

  void AddTile(const Tile& tile) {
    const Draws draws = DrawTile(args_, u_, tile, draws_);
    const Columns computed = tile.Computed<Terms::kFloats>(0, tile.queries);
    const float* const k_tile =
        k_tiles_ + tile.key / kFloatKeyTile * u_.tile_floats + computed.begin;
    MultiplyScores(tile, computed,
                   {q_.data, q_.row, 1, k_tile, u_.tile_row, scores_ + computed.begin, u_.tile_row},
                   u_.dim);
    for (int64_t row = 0; row < tile.queries; row += kBlockRows) {
      const int64_t rows = Smaller(kBlockRows, tile.queries - row);
      args_.dropout_threshold == 0 ? Softmax<false>(tile, row, rows, draws)
                                   : Softmax<true>(tile, row, rows, draws);
    }
    const FloatRows v = From(v_, tile.key);
    MultiplyByKeys(tile, {scores_, u_.tile_row, 1, v.data, v.row, out_, row_},
                   u_.padded_dim / kLanes, [&](int64_t row) { return !tile.IsFirst(row); });
  }

  // Replaces the scores of a block of rows by probabilities with dropout.
  template <bool kDrops>
  void Softmax(const Tile& tile, int64_t row, int64_t rows, const Draws& draws) {
    const Columns computed = tile.Computed<Terms::kFloats>(row, rows);
    if (computed.count() == 0) return;
    const bool is_first = tile.IsFirst(row);
    // The maxima of all rows come first: each is a chain of shuffles that the exponentials would
    // have to wait for.
    float largest[kBlockRows];
    for (int64_t r = 0; r < rows; ++r) {
      largest[r] = LargestScore(args_, tile.Seen(row + r, 1), scores_ + (row + r) * u_.tile_row);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = row + r;
      if (is_first) FetchRow(args_, next_, tile.query + i);
      SoftmaxOf<kDrops>(largest[r], computed, tile.Seen(i, 1), draws.data + i * draws.row, i);
    }
  }

  // Softmax() for one row, of which `here` is the largest score.
  template <bool kDrops>
  void SoftmaxOf(float here, const Columns& computed, const Columns& seen, const uint16_t* draws,
                 int64_t row) {
    float* const scores = scores_ + row * u_.tile_row;
    SoftmaxRow& state = rows_[row];
    const float maximum = here > state.maximum ? here : state.maximum;
    // If all scores so far are -infinity, the shift must not be: -inf - -inf is NaN, and would
    // spread to later keys.
    const float shift = maximum > kMinusInfinity ? maximum : 0.0f;
    Vec sum{};
    const auto exponential = [&](int64_t column, auto is_whole) {
      Vec x = Load(scores + column) * args_.scale - shift;
      if constexpr (!is_whole()) x = Within(column, seen, x, kMinusInfinity);
      Vec p = Exp(x);
      sum += p;
      if constexpr (kDrops) p *= KeepFactor(args_, draws + column);
      Store(scores + column, p);
    };
    ForEachVec(computed, seen, exponential, [&](int64_t c) { Store(scores + c, Vec{}); });
    // Most tiles after the first few have no new maximum.
    if (state.sum != 0.0f && maximum != state.maximum) {
      const float shrink = Exp(Broadcast(state.maximum - maximum))[0];
      state.sum *= shrink;
      float* const out = out_ + row * row_;
      for (int64_t c = 0; c < u_.padded_dim; c += kLanes) Store(out + c, Load(out + c) * shrink);
    }
    state.maximum = maximum;
    state.sum += HorizontalSum(sum);
  }

  void StoreRows(int64_t query, int64_t queries) {
    const int64_t token = u_.first_query + query;
    T* const to = static_cast<T*>(args_.out) + token * args_.out_stride + u_.head * u_.dim;
    for (int64_t r = 0; r < queries; ++r) {
      const SoftmaxRow& row = rows_[r];
      StoreRow(out_ + r * row_, 1.0f / row.sum, u_.dim, to + r * args_.out_stride);
      args_.log_sum_exp[(token + r) * args_.num_heads + u_.head] =
          row.maximum + __builtin_logf(row.sum);
    }
  }

  const AttentionArgs& args_;
  Unit<T> u_;
  Unit<T> next_ = {};  // the following unit, empty after the last one
  const int64_t row_;  // stride of out_ and of copies
  const float* k_tiles_ = nullptr;
  FloatRows q_ = {};  // of the tile
  FloatRows v_ = {};
  float* scores_ = nullptr;  // [kFloatQueryTile, tile_row]: scores, later probabilities
  float* out_ = nullptr;     // [kFloatQueryTile, row_]
  uint16_t* draws_ = nullptr;
  SoftmaxRow rows_[kFloatQueryTile];
};

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_FLOATS_H_
