// attention_backward_floats.h - gradients of attention on CPUs, with products of floats.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. For each tile of keys and tile of queries,
// with D_i = sum_d dO_id O_id:
//   P = exp(S - log_sum_exp);  dP = dO V^T;  dS = scale P (mask dP - D)
//   dV += dropout(P)^T dO;  dK += dS^T Q;  dQ += dS K
// The outer loop is over keys. What it keeps in the second-level cache (K, both transposed tiles,
// dK and dV) is more than what passes for each query (Q, dO and dQ).
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_BACKWARD_FLOATS_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_BACKWARD_FLOATS_H_

#include "dtrain/ops/internal/attention_float_tiles.h"

namespace dtrain::DT_CPU_ISA {

// One unit.
template <typename T>
class FloatsBackwardUnit {
 public:
  FloatsBackwardUnit(const AttentionArgs& args, int64_t index)
      : args_(args), u_(MakeUnit<T>(args, index, kFloatKeyTile)), row_(SpacedRow(u_.dim)) {}

  void Run() {
    const int64_t column = u_.head * u_.dim;
    PrepareQueries(column);
    k_tile_ = u_.Take(u_.tile_floats);
    v_tile_ = u_.Take(u_.tile_floats);
    const int64_t key_floats = Smaller(u_.keys, kFloatKeyTile) * row_;
    float* const k_copy = u_.Take(key_floats);
    dk_ = u_.Take(key_floats);
    dv_ = u_.Take(key_floats);
    p_ = u_.Take(kFloatQueryTile * u_.tile_row);
    ds_ = u_.Take(kFloatQueryTile * u_.tile_row);
    draws_ = reinterpret_cast<uint16_t*>(u_.scratch);
    T* const dk = static_cast<T*>(args_.dk) + u_.first_key * args_.dk_stride + column;
    T* const dv = static_cast<T*>(args_.dv) + u_.first_key * args_.dv_stride + column;
    for (int64_t key = 0; key < u_.keys; key += kFloatKeyTile) {
      const int64_t keys = Smaller(kFloatKeyTile, u_.keys - key);
      const T* const k = u_.k + key * args_.k_stride;
      const T* const v = u_.v + key * args_.v_stride;
      TransposeCopy(k, args_.k_stride, keys, u_.dim, k_tile_, u_.tile_row);
      TransposeCopy(v, args_.v_stride, keys, u_.dim, v_tile_, u_.tile_row);
      k_ = SpacedRows(k, args_.k_stride, keys, u_.dim, k_copy);
      ZeroFloats(dk_, keys * row_);
      ZeroFloats(dv_, keys * row_);
      ForEachQueryTile<kFloatQueryTile>(args_, u_, key, keys,
                                        [&](const Tile& tile) { AddTile(tile); });
      StoreRows(dk_, keys, dk + key * args_.dk_stride, args_.dk_stride);
      StoreRows(dv_, keys, dv + key * args_.dv_stride, args_.dv_stride);
    }
    T* const dq = static_cast<T*>(args_.dq) + u_.first_query * args_.dq_stride + column;
    StoreRows(dq_, u_.queries, dq, args_.dq_stride);
  }

 private:
  void PrepareQueries(int64_t column) {
    const int64_t token = u_.first_query;
    const T* const out = static_cast<const T*>(args_.out) + token * args_.out_stride + column;
    const T* const d_out = static_cast<const T*>(args_.d_out) + token * args_.d_out_stride + column;
    const int64_t floats = u_.queries * row_;
    q_ = SpacedRows(u_.q, args_.q_stride, u_.queries, u_.dim, u_.Take(floats));
    d_out_ = SpacedRows(d_out, args_.d_out_stride, u_.queries, u_.dim, u_.Take(floats));
    dq_ = u_.Take(floats);
    ZeroFloats(dq_, floats);
    log_sum_exp_ = u_.Take(u_.queries);
    delta_ = u_.Take(u_.queries);
    for (int64_t r = 0; r < u_.queries; ++r) {
      log_sum_exp_[r] = args_.log_sum_exp[(token + r) * args_.num_heads + u_.head];
      delta_[r] = Dot(d_out + r * args_.d_out_stride, out + r * args_.out_stride, u_.dim);
    }
  }

  void AddTile(const Tile& tile) {
    const Draws draws = DrawTile(args_, u_, tile, draws_);
    const Columns computed = tile.Computed<Terms::kFloats>(0, tile.queries);
    const int64_t begin = computed.begin;
    const FloatRows q = From(q_, tile.query);
    const FloatRows d_out = From(d_out_, tile.query);
    MultiplyScores(tile, computed,
                   {q.data, q.row, 1, k_tile_ + begin, u_.tile_row, p_ + begin, u_.tile_row},
                   u_.dim);
    MultiplyScores(
        tile, computed,
        {d_out.data, d_out.row, 1, v_tile_ + begin, u_.tile_row, ds_ + begin, u_.tile_row}, u_.dim);
    for (int64_t r = 0; r < tile.queries; ++r) {
      args_.dropout_threshold == 0 ? ScoreGradients<false>(tile, computed, r, draws)
                                   : ScoreGradients<true>(tile, computed, r, draws);
    }
    MultiplyByKeys(tile, {ds_, u_.tile_row, 1, k_.data, k_.row, dq_ + tile.query * row_, row_},
                   u_.padded_dim / kLanes, [](int64_t) { return true; });
    AddKeyGradients(tile, computed, q, d_out);
  }

  // Turns a row of p_ from scores into dropout(P), and of ds_ from dP into dS. In computed columns
  // that the row does not see both become 0, because products over queries read them.
  template <bool kDrops>
  void ScoreGradients(const Tile& tile, const Columns& computed, int64_t row, const Draws& draws) {
    float* const p = p_ + row * u_.tile_row;
    float* const ds = ds_ + row * u_.tile_row;
    const uint16_t* const of_row = draws.data + row * draws.row;
    const float log_sum_exp = log_sum_exp_[tile.query + row];
    const float delta = delta_[tile.query + row];
    const Columns seen = tile.Seen(row, 1);
    const auto gradient = [&](int64_t column, auto is_whole) {
      Vec probability = Exp(Load(p + column) * args_.scale - log_sum_exp);
      Vec d_probability = Load(ds + column);
      if constexpr (!is_whole()) {
        probability = Within(column, seen, probability, 0.0f);
        d_probability = Within(column, seen, d_probability, 0.0f);
      }
      Vec kept = probability;
      if constexpr (kDrops) {
        const Vec keep = KeepFactor(args_, of_row + column);
        kept *= keep;
        d_probability *= keep;
      }
      Store(p + column, kept);
      Store(ds + column, probability * (d_probability - delta) * args_.scale);
    };
    ForEachVec(computed, seen, gradient, [&](int64_t column) {
      Store(p + column, Vec{});
      Store(ds + column, Vec{});
    });
  }

  // The products over the queries of a tile: dV += dropout(P)^T dO, dK += dS^T Q. All panels of Q
  // and dO fit the first-level cache, so that a block of keys is read once.
  void AddKeyGradients(const Tile& tile, const Columns& computed, const FloatRows& q,
                       const FloatRows& d_out) {
    const int64_t vecs = u_.padded_dim / kLanes;
    for (int64_t key = computed.begin; key < computed.end; key += kBlockRows) {
      const int rows = static_cast<int>(Smaller(kBlockRows, computed.end - key));
      // The tile's queries that see some of these keys.
      const int64_t position = tile.key + key - tile.query;
      const int64_t begin = Larger(0, position - tile.after);
      const int64_t end = Smaller(tile.queries, position + rows + tile.before);
      if (begin >= end) continue;
      const int64_t at = begin * u_.tile_row + key;
      Multiply<true>(rows,
                     {p_ + at, 1, u_.tile_row, d_out.data + begin * d_out.row, d_out.row,
                      dv_ + key * row_, row_},
                     end - begin, vecs);
      Multiply<true>(
          rows, {ds_ + at, 1, u_.tile_row, q.data + begin * q.row, q.row, dk_ + key * row_, row_},
          end - begin, vecs);
    }
  }

  void StoreRows(const float* from, int64_t rows, T* to, int64_t stride) const {
    for (int64_t r = 0; r < rows; ++r) StoreRow(from + r * row_, 1.0f, u_.dim, to + r * stride);
  }

  const AttentionArgs& args_;
  Unit<T> u_;
  const int64_t row_;  // stride of dq_, dk_, dv_ and of copies
  FloatRows q_ = {}, d_out_ = {};
  float* dq_ = nullptr;           // [queries, row_]
  float* log_sum_exp_ = nullptr;  // [queries]
  float* delta_ = nullptr;        // [queries]
  // A tile of keys has transposed keys and values, keys, and sums of their gradients.
  float *k_tile_ = nullptr, *v_tile_ = nullptr;
  FloatRows k_ = {};
  float *dk_ = nullptr, *dv_ = nullptr;
  // [kFloatQueryTile, tile_row]: first scores, then dropout(P); first dP, then dS.
  float *p_ = nullptr, *ds_ = nullptr;
  uint16_t* draws_ = nullptr;
};

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_BACKWARD_FLOATS_H_
