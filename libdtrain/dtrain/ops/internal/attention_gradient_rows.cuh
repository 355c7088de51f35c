// attention_gradient_rows.cuh - 16 rows of a warp in attention's backward with tensor cores.
// SPDX-License-Identifier: Apache-2.0
//
// The code that the kernels of attention_flash_backward.cuh and attention_row_backward.cuh share. A
// warp owns 16 rows of one side (keys and values, or queries and d_out). It streams the other
// side's x (q or k) and y (d_out or v) in tiles of 64 rows:
//   S = own_x x^T;  dP = own_y y^T;  sum_x += dS x  (dK or dQ);  sum_y += P y  (dV, own keys only)
// With own keys, S is the transpose of the S in the equations. So for both sides P and dS are in
// registers in the layout of the next product's left operand. Scores are computed in chunks of
// kChunk columns and used at once.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_GRADIENT_ROWS_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_GRADIENT_ROWS_CUH_

#include <type_traits>

#include "dtrain/ops/internal/attention_tiles.cuh"

namespace dtrain {

// delta of query threadIdx.x / 2, summed by two neighbouring threads; 0 past the end.
template <typename T, int kDim>
__device__ __forceinline__ float FlashDelta(const AttentionArgs& args, const AttentionPlace& at,
                                            int query) {
  float sum = 0.0f;
  if (query < at.queries) {
    const int64_t token = at.first_query + query;
    const int column = static_cast<int>(threadIdx.x) % 2 * (kDim / 2);
    const T* const d_out = HeadRow<T>(args.d_out, args.d_out_stride, token, args, at.head) + column;
    const T* const out = HeadRow<const T>(args.out, args.out_stride, token, args, at.head) + column;
#pragma unroll
    for (int c = 0; c < kDim / 2; c += 8) {
      const Packed<T, 8> a = LoadPacked<8>(d_out + c);
      const Packed<T, 8> b = LoadPacked<8>(out + c);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
    }
  }
  return sum + __shfl_xor_sync(kFullWarp, sum, 1);
}

// 64 rows of the streamed side in shared memory.
template <typename T>
struct FlashStreamedTile {
  const T *x, *y;
  int first;                   // the first row
  const float *base2, *delta;  // for the tile's queries; used with own keys
  T* kept_ds;                  // [own rows, 64]: where dS is kept, if it is kept
};

// 16 own rows of a warp while the other side is streamed. Members of Traits: T, kDim, kOwnKeys,
// kDropout, kWindow, kChunk; kHoldsX and kHoldsY, true if own rows stay in registers instead of
// being read from their tiles each time; kKeepsScores, true if dS is also written to shared memory;
// kWarpgroup, true if the four warps multiply together (attention_warpgroup.cuh says how).
template <typename Traits>
struct FlashGradientRows {
  using T = typename Traits::T;
  static constexpr int kDim = Traits::kDim;
  static constexpr bool kOwnKeys = Traits::kOwnKeys;
  static constexpr bool kDropout = Traits::kDropout;
  static constexpr bool kWindow = Traits::kWindow;
  static constexpr int kChunk = Traits::kChunk;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kBlocks = kChunk / 8;
  static constexpr int kYBlocks = kOwnKeys ? kDim / 8 : 1;  // sum_y is used with own keys only
  using Kept = std::conditional_t<kOwnKeys, KeptKeyRows, KeptQueryRows>;

  uint32_t own_x[Traits::kHoldsX ? kSteps : 1][4];
  uint32_t own_y[Traits::kHoldsY ? kSteps : 1][4];
  const T *x_tile, *y_tile;  // own rows are read from here unless they are held in registers
  int tile_row;              // the warp's first row
  float sum_x[kDim / 8][4];
  float sum_y[kYBlocks][4];
  float base2[2], delta[2];  // for own queries: values of the lane's two rows
  int first;                 // the first own row
  Kept kept;

  __device__ __forceinline__ void Start(const AttentionArgs& args, const AttentionPlace& at,
                                        const T* own_x_tile, const T* own_y_tile, int row) {
    first = at.first_row + row;
    if constexpr (kDropout) kept.Start(args, at, first);
    x_tile = own_x_tile;
    y_tile = own_y_tile;
    tile_row = row;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (Traits::kHoldsX) LoadLeft<kDim>(own_x[step], own_x_tile, row, step);
      if constexpr (Traits::kHoldsY) LoadLeft<kDim>(own_y[step], own_y_tile, row, step);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) sum_x[n][i] = 0.0f;
#pragma unroll
      for (int n = 0; n < kYBlocks; ++n) sum_y[n][i] = 0.0f;
    }
  }

  // Loads base2 and delta of own queries. `tile_delta` belongs to the warp's first query.
  __device__ __forceinline__ void LoadStatistics(const AttentionArgs& args,
                                                 const AttentionPlace& at,
                                                 const float* tile_delta) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = min(first + ResultRow(2 * half), at.queries - 1);
      base2[half] = args.log_sum_exp[StatisticsIndex(args, at, query)] * kLog2E;
      delta[half] = tile_delta[ResultRow(2 * half)];
    }
  }

  // result += own rows . streamed rows [8 block, 8 block + kChunk), over depth [16 step, 16 step +
  // 16). `own` holds all steps, or has room for one step that is loaded from `own_tile`.
  template <int kHeld>
  __device__ __forceinline__ void Multiply(uint32_t (&own)[kHeld][4], const T* own_tile,
                                           const T* streamed, int block, int step,
                                           float (&result)[kBlocks][4]) const {
    uint32_t(&left)[4] = own[kHeld == kSteps ? step : 0];
    if constexpr (kHeld != kSteps) LoadLeft<kDim>(left, own_tile, tile_row, step);
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      MultiplyPair<T>(result[n], result[n + 1], left,
                      LoadRight<kDim>(streamed, (block + n) * 8, step));
    }
  }

  // Hides scores of queries that do not see the key. Queries past the end are hidden by their
  // statistics. Own keys past the end need no hiding unless dS is kept, because nobody reads these
  // rows.
  __device__ __forceinline__ void Mask(const AttentionArgs& args, const AttentionPlace& at,
                                       int first_other, float (&scores)[kBlocks][4]) {
    const bool all_keys = !Traits::kKeepsScores || first + 16 <= at.keys;
    const bool all_seen = kOwnKeys ? all_keys && (!args.causal || first + 15 <= first_other)
                                   : first_other + kChunk <= EndKey<kWindow>(args, at, first);
    const bool all_near = !kWindow || (first + 15 - first_other <= args.window &&
                                       first_other + kChunk - 1 - first <= args.window);
    if (all_seen && all_near) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = first + ResultRow(i);
      const int other = first_other + ResultColumn(i);
      const int begin = own >= at.keys ? at.queries : (!kWindow && args.causal ? own : 0);
      const int end = EndKey<kWindow>(args, at, own);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        bool seen = kOwnKeys ? other + 8 * n >= begin : other + 8 * n < end;
        if constexpr (kWindow) seen = seen && abs(other + 8 * n - own) <= args.window;
        if (!seen) scores[n][i] = MinusInfinity();
      }
    }
  }

  // Turns scores into probabilities after dropout, and dP into dS without the scale, for 16 columns
  // of the chunk. `block` is the index of the chunk's first 8 columns in the tile.
  __device__ __forceinline__ void Gradients(const AttentionArgs& args,
                                            const FlashStreamedTile<T>& tile, int block, int step,
                                            float (&scores)[kBlocks][4],
                                            float (&d_scores)[kBlocks][4]) {
    const float scale_log2 = args.scale * kLog2E;
    KeptElements drawn;
    if constexpr (kDropout) drawn = kept.Draw(args, first, tile.first + block * 8 + step * 16);
#pragma unroll
    for (int n = 2 * step; n < 2 * step + 2; ++n) {
      Packed<float, 2> column_base2, column_delta;
      if constexpr (kOwnKeys) {
        column_base2 = LoadPacked<2>(tile.base2 + (block + n) * 8 + ResultColumn(0));
        column_delta = LoadPacked<2>(tile.delta + (block + n) * 8 + ResultColumn(0));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float row_base2 = kOwnKeys ? column_base2.values[i % 2] : base2[i / 2];
        const float row_delta = kOwnKeys ? column_delta.values[i % 2] : delta[i / 2];
        const float p = FastExp2(scores[n][i] * scale_log2 - row_base2);
        const float dp = d_scores[n][i];
        if constexpr (kDropout) {
          const int element = KeptIndex(n, i);
          scores[n][i] = drawn.Keep(element, p);
          d_scores[n][i] = p * (dp * drawn.Factor(element, args.dropout_scale) - row_delta);
        } else {
          scores[n][i] = p;
          d_scores[n][i] = p * (dp - row_delta);
        }
      }
    }
  }

  // Processes columns [8 block, 8 block + kChunk) of a streamed tile.
  __device__ __forceinline__ void Chunk(const AttentionArgs& args, const AttentionPlace& at,
                                        const FlashStreamedTile<T>& tile, int block) {
    float scores[kBlocks][4] = {};
    float d_scores[kBlocks][4] = {};
    // Each branch uses the order that needs fewer registers; the sums are the same.
    if constexpr (Traits::kHoldsX) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        Multiply(own_x, x_tile, tile.x, block, step, scores);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        Multiply(own_y, y_tile, tile.y, block, step, d_scores);
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        Multiply(own_x, x_tile, tile.x, block, step, scores);
        Multiply(own_y, y_tile, tile.y, block, step, d_scores);
      }
    }
    Mask(args, at, tile.first + block * 8, scores);
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      Gradients(args, tile, block, step, scores, d_scores);
    }
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      uint32_t left[4];
      if constexpr (kOwnKeys) {
        ResultsToLeft<T>(left, scores[2 * step], scores[2 * step + 1]);
#pragma unroll
        for (int n = 0; n < kDim / 8; n += 2) {
          MultiplyPair<T>(sum_y[n], sum_y[n + 1], left,
                          LoadRightTransposed<kDim>(tile.y, block * 8 + step * 16, n));
        }
      }
      ResultsToLeft<T>(left, d_scores[2 * step], d_scores[2 * step + 1]);
      if constexpr (Traits::kKeepsScores) {
        StoreLeft<kFlashTile>(left, tile.kept_ds, tile_row, block + 2 * step);
      }
#pragma unroll
      for (int n = 0; n < kDim / 8; n += 2) {
        MultiplyPair<T>(sum_x[n], sum_x[n + 1], left,
                        LoadRightTransposed<kDim>(tile.x, block * 8 + step * 16, n));
      }
    }
  }

  // Processes a whole tile with the other warps of the warpgroup.
  __device__ __forceinline__ void AddTogether(const AttentionArgs& args, const AttentionPlace& at,
                                              const FlashStreamedTile<T>& tile) {
    static_assert(kDim == 64 && kChunk == kFlashTile && !Traits::kKeepsScores);
    const WarpgroupTile x = MakeWarpgroupTile(tile.x);
    const WarpgroupTile y = MakeWarpgroupTile(tile.y);
    const WarpgroupTile mine_x = MakeWarpgroupTile(x_tile);
    const WarpgroupTile mine_y = MakeWarpgroupTile(y_tile);
    float scores[kBlocks][4];
    float d_scores[kBlocks][4];
    WarpgroupArrive();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      WarpgroupProduct<T>(scores, mine_x, x, step, step > 0);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      WarpgroupProduct<T>(d_scores, mine_y, y, step, step > 0);
    }
    WarpgroupCommit();
    WarpgroupWait<0>(scores, d_scores);
    Mask(args, at, tile.first, scores);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) Gradients(args, tile, 0, step, scores, d_scores);
    uint32_t p[kOwnKeys ? kSteps : 1][4], ds[kSteps][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (kOwnKeys) ResultsToLeft<T>(p[step], scores[2 * step], scores[2 * step + 1]);
      ResultsToLeft<T>(ds[step], d_scores[2 * step], d_scores[2 * step + 1]);
    }
    WarpgroupArrive();
    if constexpr (kOwnKeys) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        WarpgroupProduct<T, true>(sum_y, p[step], y, step, true);
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      WarpgroupProduct<T, true>(sum_x, ds[step], x, step, true);
    }
    WarpgroupCommit();
    if constexpr (kOwnKeys) {
      WarpgroupWait<0>(sum_x, sum_y);
    } else {
      WarpgroupWait<0>(sum_x);
    }
  }

  // Processes the chunks of the tile that have a score some own row needs.
  __device__ __forceinline__ void Add(const AttentionArgs& args, const AttentionPlace& at,
                                      const FlashStreamedTile<T>& tile) {
    const int begin = kOwnKeys ? FirstQuery<kWindow>(args, first) : FirstKey<kWindow>(args, first);
    const int end =
        kOwnKeys ? EndQuery<kWindow>(args, at, first + 15) : EndKey<kWindow>(args, at, first + 15);
    if constexpr (Traits::kWarpgroup) {
      AddTogether(args, at, tile);
      return;
    }
    if (tile.first >= end || tile.first + kFlashTile <= begin) return;
#pragma unroll 1
    for (int column = 0; column < kFlashTile; column += kChunk) {
      const int first_column = tile.first + column;
      if (first_column >= end || first_column + kChunk <= begin) continue;
      Chunk(args, at, tile, column / 8);
    }
  }

  __device__ __forceinline__ void Finish(const AttentionArgs& args, const AttentionPlace& at,
                                         T* x_staging, T* y_staging) {
    const float x_factor[2] = {args.scale, args.scale};
    if constexpr (kOwnKeys) {
      const int64_t token = at.first_key + first;
      const float keep_scale = kDropout ? args.dropout_scale : 1.0f;
      const float y_factor[2] = {keep_scale, keep_scale};
      StoreResults<kDim, kDim>(sum_x, x_factor, at.keys - first, x_staging,
                               HeadRow<T>(args.dk, args.dk_stride, token, args, at.head),
                               args.dk_stride);
      StoreResults<kDim, kDim>(sum_y, y_factor, at.keys - first, y_staging,
                               HeadRow<T>(args.dv, args.dv_stride, token, args, at.head),
                               args.dv_stride);
    } else {
      StoreResults<kDim, kDim>(
          sum_x, x_factor, at.queries - first, x_staging,
          HeadRow<T>(args.dq, args.dq_stride, at.first_query + first, args, at.head),
          args.dq_stride);
    }
  }
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_GRADIENT_ROWS_CUH_
