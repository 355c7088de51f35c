// attention_forward_tiles.h - attention's forward pass on processors with AMX.
// SPDX-License-Identifier: Apache-2.0
//
// Only for files that dtrain_cpu_kernels() compiles. For each tile of queries and tile of keys:
//   P = exp(scale Q K^T);  l += P 1;  O += dropout(P) V
//   out = O / l;  log_sum_exp = log l
// This softmax does not subtract maxima, which most models' scores do not need. P's relative error
// is the same for all magnitudes, and finding maxima takes a third of the softmax's time. If some l
// leaves [2^-60, 2^60], for example with scores above 41, the caller computes the unit again with
// maxima (ADR 28).
//
// While AMX is in use, and for half a microsecond afterwards, vector multiplications run at half
// their rate. An exponential takes eight of them.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_TILES_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_TILES_H_

#include "dtrain/ops/internal/attention_unit.h"

namespace dtrain::DT_CPU_ISA {

#if defined(__AMX_BF16__)

// One unit of BFloat16 with a head size that is a multiple of 2 * kTileSide.
template <typename T>
class TilesForwardUnit {
 public:
  TilesForwardUnit(const AttentionArgs& args, int64_t index)
      : args_(args), power_(args.scale * kLog2E), u_(MakeUnit<T>(args, index)) {
    if (index + 1 < args.last_unit) next_ = MakeUnit<T>(args, index + 1);
  }

  // Returns false if a sum left the range; `out` and `log_sum_exp` are then invalid.
  bool Run() {
    if (u_.queries == 0) return true;
    k_tiles_ = TransposeTiles<Terms::kTiles>(u_, u_.k, args_.k_stride);
    v_ = u_.Take(u_.padded_keys * u_.dim);
    CopyValues();
    scores_ = u_.Take(kQueryTile * u_.tile_row);
    out_ = u_.Take(kQueryTile * u_.dim);
    float* const q_copy = u_.Take(kQueryTile * u_.dim);
    draws_ = reinterpret_cast<uint16_t*>(u_.scratch);
    for (int64_t query = 0; query < u_.queries; query += kQueryTile) {
      const int64_t queries = Smaller(kQueryTile, u_.queries - query);
      const FloatRows q = LeftRows<Terms::kTiles>(u_.q + query * args_.q_stride, args_.q_stride,
                                                  queries, u_.dim, q_copy);
      ForEachTile(args_, u_, query, queries, [&](const Tile& tile) { MultiplyTile(tile, q); });
      if (!StoreRows(query, queries)) return false;
    }
    return true;
  }

 private:
  // Within these limits, values between 2^-66 and 2^67 (of one key) have products that float32 can
  // represent.
  static constexpr float kLeastSum = 0x1p-60f;
  static constexpr float kLargestSum = 0x1p60f;

  // Copies V as pairs of keys. Within each 2 * kTileSide columns the even ones come first, which
  // avoids a shuffle.
  void CopyValues() {
    float* to = v_;
    for (int64_t key = 0; key < u_.padded_keys; key += 2) {
      const T* const row = u_.v + key * args_.v_stride;
      for (int64_t c = 0; c < u_.dim; c += kSplitLanes) {
        const UintVec low = key < u_.keys ? LoadWords(row + c) : UintVec{};
        const UintVec high = key + 1 < u_.keys ? LoadWords(row + args_.v_stride + c) : UintVec{};
        Store(to + c, reinterpret_cast<Vec>((low & 0xffffu) | high << 16));
        Store(to + c + kLanes, reinterpret_cast<Vec>(low >> 16 | (high & 0xffff0000u)));
      }
      to += u_.dim;
    }
  }

  void MultiplyTile(const Tile& tile, const FloatRows& q) {
    const Columns computed = tile.Computed<Terms::kTiles>(0, tile.queries);
    const float* const k_tile = k_tiles_ + tile.key / kKeyTile * u_.tile_floats + computed.begin;
    MultiplyByTiles<false>(tile.queries,
                           {q.data, q.row, 1, k_tile, u_.tile_row, scores_, u_.tile_row},
                           u_.dim / 2, computed.vecs());
    args_.dropout_threshold == 0 ? Exponentials<false>(tile, computed)
                                 : Exponentials<true>(tile, computed);
    const float* const v = v_ + (tile.key + computed.begin) / 2 * u_.dim;
    const Product product = {scores_, u_.tile_row, 1, v, u_.dim, out_, u_.dim};
    const int64_t pairs = TermsOf<Terms::kTiles>(computed.count());
    tile.IsFirst(0) ? MultiplyByTiles<false>(tile.queries, product, pairs, u_.dim / kLanes)
                    : MultiplyByTiles<true>(tile.queries, product, pairs, u_.dim / kLanes);
  }

  // Replaces the scores of the computed columns by probabilities with dropout.
  template <bool kDrops>
  void Exponentials(const Tile& tile, const Columns& computed) {
    const bool is_first = tile.IsFirst(0);
    const int64_t vecs = computed.vecs();
    const Draws draws = DrawTile(args_, u_, tile, draws_);
    for (int64_t r = 0; r < tile.queries; ++r) {
      if (is_first) FetchRow(args_, next_, tile.query + r);
      const Vec sum = ExponentialsOf<kDrops>(tile.Seen(r, 1).From(computed.begin), vecs,
                                             draws.data + r * draws.row + computed.begin,
                                             scores_ + r * u_.tile_row);
      sums_[r] = is_first ? sum : sums_[r] + sum;
    }
  }

  // Like Exponentials(), for one row. Returns the lanes of its sum before dropout.
  template <bool kDrops>
  Vec ExponentialsOf(const Columns& seen, int64_t vecs, const uint16_t* draws,
                     float* scores) const {
    auto* const to = reinterpret_cast<T*>(scores);
    const float power = power_;
    Vec sum{};
    const auto exponential = [&](int64_t column) {
      Vec p = RoundedExp2(Load(scores + column) * power);
      p = Within(column, seen, p, 0.0f);
      sum += p;
      return kDrops ? p * KeepFactor(args_, draws + column) : p;
    };
    int64_t column = 0;
    for (; column + kSplitLanes <= vecs * kLanes; column += kSplitLanes) {
      const Vec low = exponential(column);
      StoreTwo(to + column, low, exponential(column + kLanes));
    }
    if (column < vecs * kLanes) StoreTwo(to + column, exponential(column), Vec{});
    return sum;
  }

  // Stores the rows of finished queries. Returns false if a sum is out of range.
  bool StoreRows(int64_t query, int64_t queries) {
    alignas(64) float inverse[kQueryTile];
    alignas(64) float log_sum[kQueryTile];
    bool holds = true;
    for (int64_t first = 0; first < queries; first += kLanes) {
      Vec lanes[kLanes];
      for (int64_t r = 0; r < kLanes; ++r) {
        lanes[r] = first + r < queries ? sums_[first + r] : Broadcast(1.0f);
      }
      const Vec sum = HorizontalSums(lanes);
      const IntVec in_range = (sum >= kLeastSum) & (sum <= kLargestSum);
      for (int64_t r = 0; r < kLanes; ++r) holds &= in_range[r] != 0;
      Store(inverse + first, 1.0f / sum);
      Store(log_sum + first, Log(sum));
    }
    const int64_t token = u_.first_query + query;
    auto* to = static_cast<T*>(args_.out) + token * args_.out_stride + u_.head * u_.dim;
    float* log_sum_exp = args_.log_sum_exp + token * args_.num_heads + u_.head;
    for (int64_t r = 0; r < queries; ++r) {
      const float* const out = out_ + r * u_.dim;
      for (int64_t c = 0; c < u_.dim; c += kSplitLanes) {
        StoreWords(to + c, Join({Load(out + c) * inverse[r], Load(out + c + kLanes) * inverse[r]}));
      }
      *log_sum_exp = log_sum[r];
      to += args_.out_stride;
      log_sum_exp += args_.num_heads;
    }
    return holds;
  }

  const AttentionArgs& args_;
  const float power_;  // the exponent of 2 for a score of 1
  Unit<T> u_;
  Unit<T> next_ = {};  // the following unit, empty after the last one
  const float* k_tiles_ = nullptr;
  float* v_ = nullptr;
  float* scores_ = nullptr;  // scores, later probabilities
  float* out_ = nullptr;     // [kQueryTile, dim]: sums, with columns in the order of v_
  uint16_t* draws_ = nullptr;
  Vec sums_[kQueryTile];  // sum of each row, lane by lane
};

#else

// Never run. Clang instantiates the call in a branch that is discarded.
template <typename T>
struct TilesForwardUnit {
  TilesForwardUnit(const AttentionArgs& /*args*/, int64_t /*index*/) {}
  bool Run() { return false; }
};

#endif

}  // namespace dtrain::DT_CPU_ISA

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FORWARD_TILES_H_
