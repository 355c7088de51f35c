// attention_flash_forward.cuh - attention's forward pass with tensor cores, for 16-bit types.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh; Dao, "FlashAttention-2" (2023), algorithm 1.
// Geometry: a block of 4 warps per 64 kRowTiles queries of a (sequence, head). A warp owns 16
//   kRowTiles queries, with their sums and running maxima in registers. 64 keys at a time.
// Shared memory: two stages of 64 rows of K and of V; cp.async fills one stage while the other is
//   used. Q passes through the second stage into registers before the loop. 4 * 64 * kDim * 2
//   bytes: 16, 32 or 64 KiB.
// Traffic: q, k, v and out once from memory; k and v again per block of queries, from the cache.
// Minimum time (model): 4 * queries * keys * kDim operations at the mma.sync rate. Each fragment of
//   K or V read from shared memory feeds 2 kRowTiles products.
// P stays in registers: the result layout of Q K^T is the left operand's layout of P V. exp is exp2
//   with log2 e folded into the scale; dropout's scale is applied at the end.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_FORWARD_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_FORWARD_CUH_

#include "dtrain/ops/internal/attention_tiles.cuh"

namespace dtrain {

template <int kDim>
constexpr size_t FlashSharedBytes() {
  return size_t{4} * kFlashTile * kDim * 2;
}

// True if Q stays in registers during the loop; otherwise it has rows of its own in shared memory.
template <int kDim, int kRowTiles>
inline constexpr bool kFlashHoldsQ = kRowTiles == 1 || kDim == 32;

template <int kDim, int kRowTiles>
constexpr size_t FlashForwardSharedBytes() {
  const size_t own = kFlashHoldsQ<kDim, kRowTiles> ? 0 : kFlashWarps * kRowTiles * 16 * kDim * 2;
  return FlashSharedBytes<kDim>() + own;
}

// The state of 16 queries of a warp while the keys are streamed.
template <typename T, int kDim, bool kHoldsQ, bool kDropout, bool kWindow = false>
struct FlashRows {
  static constexpr int kSteps = kDim / 16;
  static constexpr int kBlocks = kFlashTile / 8;

  uint32_t q[kHoldsQ ? kSteps : 1][4];
  const T* q_tile;  // q is read from here unless it is held in registers
  int tile_row;     // the warp's first row
  float out[kDim / 8][4];
  float scores[kBlocks][4];
  float maximum[2], sum[2];  // for the lane's two rows; `sum` covers only this lane's columns
  int first;                 // the first query
  KeptQueryRows kept;

  __device__ __forceinline__ void Start(const AttentionArgs& args, const AttentionPlace& at,
                                        const T* tile, int row) {
    first = at.first_row + row;
    if constexpr (kDropout) kept.Start(args, at, first);
    q_tile = tile;
    tile_row = row;
    if constexpr (kHoldsQ) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) LoadLeft<kDim>(q[step], tile, row, step);
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = 0.0f;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[half] = MinusInfinity();
      sum[half] = 0.0f;
    }
  }

  __device__ __forceinline__ void Reload(int step) { LoadLeft<kDim>(q[0], q_tile, tile_row, step); }

  // Sets scores to -infinity for keys that the rows do not see.
  __device__ __forceinline__ void Mask(const AttentionArgs& args, const AttentionPlace& at,
                                       int first_key) {
    const bool all_begin = !kWindow || FirstKey<kWindow>(args, first + 15) <= first_key;
    if (all_begin && first_key + kFlashTile <= EndKey<kWindow>(args, at, first)) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kWindow) {
        const int query = first + ResultRow(i);
        const int column = first_key + ResultColumn(i);
        const int begin = query - args.window - column;
        const auto count = static_cast<unsigned>(EndKey<kWindow>(args, at, query) - column - begin);
#pragma unroll
        for (int n = 0; n < kBlocks; ++n) {
          // Without a sign, columns before `begin` are large numbers.
          const bool seen = static_cast<unsigned>(8 * n - begin) < count;
          if (!seen) scores[n][i] = MinusInfinity();
        }
      } else {
        // EndKey() written out: the compiler finds fewer registers for the call.
        const int end = args.causal ? min(at.keys, first + ResultRow(i) + 1) : at.keys;
        const int seen = end - first_key - ResultColumn(i);
#pragma unroll
        for (int n = 0; n < kBlocks; ++n) {
          if (8 * n >= seen) scores[n][i] = MinusInfinity();
        }
      }
    }
  }

  // Turns scores into probabilities relative to the maximum so far. Every row has seen key 0,
  // except with a window: a row that has seen no key yet subtracts 0 instead of infinity. Here and
  // in Finish() fused operations are written explicitly, so that a row gets the same bits for every
  // kRowTiles.
  __device__ __forceinline__ void Softmax(float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = maximum[half];
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        largest = max(largest, max(scores[n][2 * half], scores[n][2 * half + 1]));
      }
      largest = max(largest, __shfl_xor_sync(kFullWarp, largest, 1));
      largest = max(largest, __shfl_xor_sync(kFullWarp, largest, 2));
      const float shift = kWindow && largest == MinusInfinity() ? 0.0f : largest;
      const float offset = shift * scale_log2;
      // The difference must come before the product. Fused as maximum * scale_log2 - offset, an
      // unchanged maximum would yield the rounding error of `offset` instead of 0, and the sums
      // would shrink at each tile.
      const float shrink = FastExp2((maximum[half] - shift) * scale_log2);
      maximum[half] = largest;
      float total = 0.0f;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = FastExp2(__fmaf_rn(scores[n][i], scale_log2, -offset));
          total += scores[n][i];
        }
      }
      sum[half] = __fmaf_rn(sum[half], shrink, total);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        out[n][2 * half] *= shrink;
        out[n][2 * half + 1] *= shrink;
      }
    }
  }

  __device__ __forceinline__ void Finish(const AttentionArgs& args, const AttentionPlace& at,
                                         T* staging) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[half];
      total += __shfl_xor_sync(kFullWarp, total, 1);
      total += __shfl_xor_sync(kFullWarp, total, 2);
      factor[half] = (kDropout ? args.dropout_scale : 1.0f) / total;
      const int query = first + ResultRow(2 * half);
      if (LaneIndex() % 4 == 0 && query < at.queries) {
        args.log_sum_exp[StatisticsIndex(args, at, query)] =
            __fmaf_rn(maximum[half], args.scale, logf(total));
      }
    }
    StoreResults<kDim, kDim>(
        out, factor, at.queries - first, staging,
        HeadRow<T>(args.out, args.out_stride, at.first_query + first, args, at.head),
        args.out_stride);
  }
};

// Processes one tile of keys for all rows of a warp.
template <typename T, int kDim, int kRowTiles, bool kHoldsQ, bool kDropout, bool kWindow>
__device__ __forceinline__ void FlashForwardStep(
    const AttentionArgs& args, const AttentionPlace& at, const T* k_tile, const T* v_tile,
    int first_key, FlashRows<T, kDim, kHoldsQ, kDropout, kWindow> (&rows)[kRowTiles]) {
#pragma unroll
  for (auto& row : rows) {
#pragma unroll
    for (int n = 0; n < kFlashTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) row.scores[n][i] = 0.0f;
    }
  }
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    if constexpr (!kHoldsQ) {
#pragma unroll
      for (auto& row : rows) row.Reload(step);
    }
#pragma unroll
    for (int n = 0; n < kFlashTile / 8; n += 2) {
      const RightPair k = LoadRight<kDim>(k_tile, n * 8, step);
#pragma unroll
      for (auto& row : rows) {
        MultiplyPair<T>(row.scores[n], row.scores[n + 1], row.q[kHoldsQ ? step : 0], k);
      }
    }
  }
#pragma unroll
  for (auto& row : rows) {
    row.Mask(args, at, first_key);
    row.Softmax(args.scale * kLog2E);
  }
#pragma unroll
  for (int step = 0; step < kFlashTile / 16; ++step) {
    uint32_t p[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      ResultsToLeft<T>(p[m], rows[m].scores[2 * step], rows[m].scores[2 * step + 1]);
      if constexpr (kDropout)
        DropLeft(p[m], rows[m].kept.Draw(args, rows[m].first, first_key + 16 * step));
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      const RightPair v = LoadRightTransposed<kDim>(v_tile, step * 16, n);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyPair<T>(rows[m].out[n], rows[m].out[n + 1], p[m], v);
      }
    }
  }
}

template <typename T, int kDim, int kRowTiles, bool kDropout, bool kWindow>
__device__ __forceinline__ void FlashForwardTile(const AttentionArgs& args,
                                                 const AttentionPlace& at) {
  constexpr int kTileElements = kFlashTile * kDim;
  constexpr int kOwn = kFlashWarps * kRowTiles * 16;
  static_assert(kOwn <= 2 * kFlashTile, "Q passes through a stage");
  T* const tiles = reinterpret_cast<T*>(DynamicShared());
  constexpr bool kHoldsQ = kFlashHoldsQ<kDim, kRowTiles>;
  T* const q_tile = tiles + (kHoldsQ ? 2 : 4) * kTileElements;
  const T* const k = HeadRow<T>(args.k, args.k_stride, at.first_key, args, at.head);
  const T* const v = HeadRow<T>(args.v, args.v_stride, at.first_key, args, at.head);
  const int begin = FirstStreamed<kWindow>(FirstKey<kWindow>(args, at.first_row));
  const int keys = EndKey<kWindow>(args, at, at.first_row + kOwn - 1);
  const auto start = [&](int stage, int first_key) {
    T* const tile = tiles + stage * 2 * kTileElements;
    StartTile<kDim, kFlashTile>(tile, k, args.k_stride, first_key, at.keys);
    StartTile<kDim, kFlashTile>(tile + kTileElements, v, args.v_stride, first_key, at.keys);
    CpAsyncCommit();
  };
  StartTile<kDim, kOwn>(q_tile, HeadRow<T>(args.q, args.q_stride, at.first_query, args, at.head),
                        args.q_stride, at.first_row, at.queries);
  CpAsyncCommit();
  start(0, begin);
  CpAsyncWait<1>();
  __syncthreads();
  const int warp_row = WarpIndex() * kRowTiles * 16;
  FlashRows<T, kDim, kHoldsQ, kDropout, kWindow> rows[kRowTiles];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    rows[m].Start(args, at, q_tile, warp_row + m * 16);
  }
  const bool has_rows = at.first_row + warp_row < at.queries;
  const int warp_begin = FirstKey<kWindow>(args, at.first_row + warp_row);
  const int warp_keys =
      min(keys, EndKey<kWindow>(args, at, at.first_row + warp_row + kRowTiles * 16 - 1));
  int stage = 0;
  for (int first_key = begin; first_key < keys; first_key += kFlashTile) {
    CpAsyncWait<0>();
    __syncthreads();  // this stage has arrived, and the other one is no longer read
    if (first_key + kFlashTile < keys) start(1 - stage, first_key + kFlashTile);
    const bool has_keys = !kWindow || first_key + kFlashTile > warp_begin;
    if (has_rows && has_keys && first_key < warp_keys) {
      const T* const tile = tiles + stage * 2 * kTileElements;
      FlashForwardStep(args, at, tile, tile + kTileElements, first_key, rows);
    }
    stage = 1 - stage;
  }
  __syncthreads();  // from here on the warps use the last stage's memory
  if (has_rows) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      rows[m].Finish(args, at, tiles + (warp_row + m * 16) * kDim);
    }
  }
}

template <typename T, int kDim, int kRowTiles, bool kDropout, bool kWindow>
__global__ __launch_bounds__(kFlashThreads) void FlashAttentionForwardKernel(AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  if constexpr (kHasFlash<T, kDim>) {
    const AttentionPlace at =
        PlaceOfBlock(args, args.max_queries, kFlashWarps * kRowTiles * 16, args.causal);
    if (at.first_row < at.queries) {
      FlashForwardTile<T, kDim, kRowTiles, kDropout, kWindow>(args, at);
    }
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_FORWARD_CUH_
