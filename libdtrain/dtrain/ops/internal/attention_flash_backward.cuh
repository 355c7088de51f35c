// attention_flash_backward.cuh - attention's gradients on the matrix units, for 16-bit types.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh. One kernel, two roles: a block owns 64 rows of one side (keys
// and values, or queries and d_out) and streams the other side in tiles of 64 rows, x (q or k) and
// y (d_out or v) together:
//   S = own_x x^T;  dP = own_y y^T;  sum_x += dS x  (dK or dQ);  sum_y += P y  (dV, own keys alone)
// With own keys, S is the transpose of the equations' S: so both roles find P and dS in registers
// in the layout of the next product's left side, and nothing but streamed rows is in shared memory.
// Geometry: 4 warps, 16 own rows each, their fragments and sums in registers; scores in chunks of
//   kChunk columns, which live only from their product to the next.
// Shared memory: two stages of x and y by cp.async; own rows pass through the second into registers
//   before the loop. 4 * 64 * kDim * 2 bytes + 1 KiB of statistics.
// Traffic: own rows once, streamed rows once per block from the cache; out and d_out once more for
//   delta (own queries), which the kernel over keys then reads.
// Floor (model): 14 * queries * keys * kDim operations for both roles at the mma.sync rate.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_

#include "dtrain/ops/internal/attention_flash_forward.cuh"

namespace dtrain {

// Columns of scores at a time, so many that the registers hold them, and blocks of a multiprocessor
// to make room for: with own keys there are two sums.
template <int kDim, bool kOwnKeys>
inline constexpr int kFlashChunk = kDim == 32 || (kDim == 64 && !kOwnKeys) ? 32 : 16;
template <int kDim>
inline constexpr int kFlashBackwardBlocks = kDim <= 64 && !kBeforeSm80 ? 3 : 1;

// Whether own_y is in registers during the loop, or a tile of its own in shared memory.
template <int kDim, bool kOwnKeys>
inline constexpr bool kFlashHoldsY = kDim < 128 || !kOwnKeys;

template <int kDim, bool kOwnKeys>
constexpr size_t FlashBackwardSharedBytes() {
  const size_t own_y = kFlashHoldsY<kDim, kOwnKeys> ? 0 : kFlashTile * kDim * 2;
  return FlashSharedBytes<kDim>() + own_y + 4 * kFlashTile * sizeof(float);
}

// log_sum_exp (base 2) and delta of 64 queries, in two stages.
struct FlashStatistics {
  float* memory;

  __device__ __forceinline__ float* Base2(int stage) const {
    return memory + stage * 2 * kFlashTile;
  }
  __device__ __forceinline__ float* Delta(int stage) const { return Base2(stage) + kFlashTile; }

  // Thread i's of 128 values: Base2 of the 64 queries from `first`, then Delta. Queries past the
  // end get infinity, which makes their probabilities 0.
  __device__ __forceinline__ float Load(const AttentionArgs& args, const AttentionPlace& at,
                                        int first) const {
    const int query = first + static_cast<int>(threadIdx.x) % kFlashTile;
    const bool is_delta = threadIdx.x >= kFlashTile;
    if (query >= at.queries) return is_delta ? 0.0f : -MinusInfinity();
    const int64_t index = StatisticsIndex(args, at, query);
    return is_delta ? args.delta[index] : args.log_sum_exp[index] * kLog2E;
  }
  __device__ __forceinline__ void Store(int stage, float value) const {
    Base2(stage)[threadIdx.x] = value;
  }
};

// delta of the block's own 64 queries, two threads each; kept in `delta` and for the kernel over
// keys in args.delta.
template <typename T, int kDim>
__device__ __forceinline__ void FlashDelta(const AttentionArgs& args, const AttentionPlace& at,
                                           float* delta) {
  const int row = static_cast<int>(threadIdx.x) / 2;
  const int query = at.first_row + row;
  const int column = static_cast<int>(threadIdx.x) % 2 * (kDim / 2);
  const int64_t token = at.first_query + min(query, at.queries - 1);
  const T* const d_out = HeadRow<T>(args.d_out, args.d_out_stride, token, args, at.head) + column;
  const T* const out =
      HeadRow<T>(static_cast<const void*>(args.out), args.out_stride, token, args, at.head) +
      column;
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < kDim / 2; c += 8) {
    const Packed<T, 8> a = LoadPacked<8>(d_out + c);
    const Packed<T, 8> b = LoadPacked<8>(out + c);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
  }
  sum += __shfl_xor_sync(kFullWarp, sum, 1);
  if (threadIdx.x % 2 == 0) {
    delta[row] = sum;
    if (query < at.queries) args.delta[StatisticsIndex(args, at, query)] = sum;
  }
}

// 16 own rows of a warp while the other side passes.
template <typename T, int kDim, bool kOwnKeys, bool kDropout>
struct FlashGradientRows {
  static constexpr int kSteps = kDim / 16;
  static constexpr int kChunk = kFlashChunk<kDim, kOwnKeys>;
  static constexpr int kBlocks = kChunk / 8;
  static constexpr int kYBlocks = kOwnKeys ? kDim / 8 : 1;  // sum_y is of own keys alone
  using Kept = std::conditional_t<kOwnKeys, KeptKeyRows, KeptQueryRows>;

  static constexpr bool kHoldsY = kFlashHoldsY<kDim, kOwnKeys>;

  uint32_t own_x[kSteps][4];
  uint32_t own_y[kHoldsY ? kSteps : 1][4];
  const T* y_tile;  // where own_y is read from unless it is held
  int tile_row;     // the warp's first
  float sum_x[kDim / 8][4];
  float sum_y[kYBlocks][4];
  float base2[2], delta[2];  // own queries: of the lane's two rows
  int first;                 // own row
  Kept kept;

  __device__ __forceinline__ void Start(const T* own_x_tile, const T* own_y_tile, int row,
                                        int first_row) {
    first = first_row;
    y_tile = own_y_tile;
    tile_row = row;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      LoadLeft<kDim>(own_x[step], own_x_tile, row, step);
      if constexpr (kHoldsY) LoadLeft<kDim>(own_y[step], own_y_tile, row, step);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) sum_x[n][i] = 0.0f;
#pragma unroll
      for (int n = 0; n < kYBlocks; ++n) sum_y[n][i] = 0.0f;
    }
  }

  // Of own queries; `tile_delta` of the warp's first.
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

  // Draws the dropout of the streamed tile that starts at `first_other`.
  __device__ __forceinline__ void Draw(const AttentionArgs& args, const AttentionPlace& at,
                                       int first_other) {
    if constexpr (kOwnKeys) {
      kept.Draw(args, at, first_other, static_cast<uint64_t>(first / 8));
    } else {
      const auto key_group = static_cast<uint64_t>(first_other / 8);
      kept.Draw(args, {DropoutGroup(args, at, first + ResultRow(0)) + key_group,
                       DropoutGroup(args, at, first + ResultRow(2)) + key_group});
    }
  }

  // Hides the scores of pairs of which the query does not see the key. Queries past the end are
  // hidden by their statistics, keys past the end are other blocks' rows or none.
  __device__ __forceinline__ void Mask(const AttentionArgs& args, const AttentionPlace& at,
                                       int first_other, float (&scores)[kBlocks][4]) {
    const bool all_seen =
        kOwnKeys ? !args.causal || first + 15 <= first_other
                 : first_other + kChunk <= (args.causal ? min(at.keys, first + 1) : at.keys);
    if (all_seen) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = first + ResultRow(i);
      const int other = first_other + ResultColumn(i);
      const int end = args.causal ? min(at.keys, own + 1) : at.keys;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        const bool seen = kOwnKeys ? own <= other + 8 * n : other + 8 * n < end;
        if (!seen) scores[n][i] = MinusInfinity();
      }
    }
  }

  // Scores become probabilities after dropout, dP becomes dS without the scale. `block`: of the
  // chunk's first 8 columns in the tile; `statistics` of the tile's queries, for own keys.
  __device__ __forceinline__ void Gradients(const AttentionArgs& args, int block,
                                            const float* tile_base2, const float* tile_delta,
                                            float (&scores)[kBlocks][4],
                                            float (&d_scores)[kBlocks][4]) {
    const float scale_log2 = args.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      uint32_t bits = 0;
      if constexpr (kDropout) bits = kept.Of(block + n);
      Packed<float, 2> column_base2, column_delta;
      if constexpr (kOwnKeys) {
        column_base2 = LoadPacked<2>(tile_base2 + (block + n) * 8 + ResultColumn(0));
        column_delta = LoadPacked<2>(tile_delta + (block + n) * 8 + ResultColumn(0));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float row_base2 = kOwnKeys ? column_base2.values[i % 2] : base2[i / 2];
        const float row_delta = kOwnKeys ? column_delta.values[i % 2] : delta[i / 2];
        const float p = FastExp2(scores[n][i] * scale_log2 - row_base2);
        float dp = d_scores[n][i];
        scores[n][i] = p;
        if constexpr (kDropout) {
          const bool is_kept = Kept::IsKept(bits, i);
          dp = is_kept ? dp * args.dropout_scale : 0.0f;
          if (!is_kept) scores[n][i] = 0.0f;
        }
        d_scores[n][i] = p * (dp - row_delta);
      }
    }
  }

  // Columns [8 block, 8 block + kChunk) of a streamed tile.
  __device__ __forceinline__ void Chunk(const AttentionArgs& args, const AttentionPlace& at,
                                        const T* x, const T* y, int first_other, int block,
                                        const float* tile_base2, const float* tile_delta) {
    float scores[kBlocks][4] = {};
    float d_scores[kBlocks][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t(&left_y)[4] = own_y[kHoldsY ? step : 0];
      if constexpr (!kHoldsY) LoadLeft<kDim>(left_y, y_tile, tile_row, step);
#pragma unroll
      for (int n = 0; n < kBlocks; n += 2) {
        MultiplyPair<T>(scores[n], scores[n + 1], own_x[step],
                        LoadRight<kDim>(x, (block + n) * 8, step));
        MultiplyPair<T>(d_scores[n], d_scores[n + 1], left_y,
                        LoadRight<kDim>(y, (block + n) * 8, step));
      }
    }
    Mask(args, at, first_other + block * 8, scores);
    Gradients(args, block, tile_base2, tile_delta, scores, d_scores);
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      uint32_t left[4];
      if constexpr (kOwnKeys) {
        ResultsToLeft<T>(left, scores[2 * step], scores[2 * step + 1]);
#pragma unroll
        for (int n = 0; n < kDim / 8; n += 2) {
          MultiplyPair<T>(sum_y[n], sum_y[n + 1], left,
                          LoadRightTransposed<kDim>(y, block * 8 + step * 16, n));
        }
      }
      ResultsToLeft<T>(left, d_scores[2 * step], d_scores[2 * step + 1]);
#pragma unroll
      for (int n = 0; n < kDim / 8; n += 2) {
        MultiplyPair<T>(sum_x[n], sum_x[n + 1], left,
                        LoadRightTransposed<kDim>(x, block * 8 + step * 16, n));
      }
    }
  }

  __device__ __forceinline__ void Finish(const AttentionArgs& args, const AttentionPlace& at,
                                         T* x_staging, T* y_staging) {
    if constexpr (kOwnKeys) {
      const int64_t token = at.first_key + first;
      const int valid = at.keys - first;
      const float factor = kDropout ? args.dropout_scale : 1.0f;
      StoreResults<kDim>(sum_x, args.scale, args.scale, valid, x_staging,
                         HeadRow<T>(args.dk, args.dk_stride, token, args, at.head), args.dk_stride);
      StoreResults<kDim>(sum_y, factor, factor, valid, y_staging,
                         HeadRow<T>(args.dv, args.dv_stride, token, args, at.head), args.dv_stride);
    } else {
      StoreResults<kDim>(sum_x, args.scale, args.scale, at.queries - first, x_staging,
                         HeadRow<T>(args.dq, args.dq_stride, at.first_query + first, args, at.head),
                         args.dq_stride);
    }
  }
};

// Starts copying 64 rows of both matrices of a side into one stage.
template <int kDim, typename T>
__device__ __forceinline__ void StartStage(T* tiles, const AttentionSide<T>& side, int first) {
  StartTile<kDim, kFlashTile>(tiles, side.x, side.x_stride, first, side.rows);
  StartTile<kDim, kFlashTile>(tiles + kFlashTile * kDim, side.y, side.y_stride, first, side.rows);
}

// The chunks of one tile that hold a score some row of the warp needs.
template <typename T, int kDim, bool kOwnKeys, bool kDropout>
__device__ __forceinline__ void FlashBackwardStep(
    const AttentionArgs& args, const AttentionPlace& at, const T* tiles, int first_other,
    const FlashStatistics& statistics, int stage,
    FlashGradientRows<T, kDim, kOwnKeys, kDropout>& rows) {
  constexpr int kChunk = kFlashChunk<kDim, kOwnKeys>;
  const int begin = kOwnKeys && args.causal ? rows.first : 0;
  const int rows_end = kOwnKeys ? at.queries : at.keys;
  const int end = !kOwnKeys && args.causal ? min(rows_end, rows.first + 16) : rows_end;
  if (first_other >= end || first_other + kFlashTile <= begin) return;
  if constexpr (kDropout) rows.Draw(args, at, first_other);
#pragma unroll 1
  for (int column = 0; column < kFlashTile; column += kChunk) {
    if (first_other + column >= end || first_other + column + kChunk <= begin) continue;
    rows.Chunk(args, at, tiles, tiles + kFlashTile * kDim, first_other, column / 8,
               statistics.Base2(stage), statistics.Delta(stage));
  }
}

template <typename T, int kDim, bool kOwnKeys, bool kDropout>
__device__ __forceinline__ void FlashBackwardTile(const AttentionArgs& args,
                                                  const AttentionPlace& at) {
  constexpr int kTileElements = kFlashTile * kDim;
  T* const tiles = reinterpret_cast<T*>(DynamicShared());
  T* const own_x = tiles + 2 * kTileElements;
  T* const own_y = tiles + (kFlashHoldsY<kDim, kOwnKeys> ? 3 : 4) * kTileElements;
  const FlashStatistics statistics = {
      reinterpret_cast<float*>(tiles + (kFlashHoldsY<kDim, kOwnKeys> ? 4 : 5) * kTileElements)};
  const AttentionSide<T> own = AttentionSideOf<T, !kOwnKeys>(args, at);
  const AttentionSide<T> other = AttentionSideOf<T, kOwnKeys>(args, at);
  const int begin = kOwnKeys && args.causal ? at.first_row : 0;
  const int end =
      !kOwnKeys && args.causal ? min(other.rows, at.first_row + kFlashTile) : other.rows;
  StartTile<kDim, kFlashTile>(own_x, own.x, own.x_stride, at.first_row, own.rows);
  StartTile<kDim, kFlashTile>(own_y, own.y, own.y_stride, at.first_row, own.rows);
  CpAsyncCommit();
  if (begin < end) StartStage<kDim>(tiles, other, begin);
  CpAsyncCommit();
  if constexpr (kOwnKeys) {
    statistics.Store(0, statistics.Load(args, at, begin));
  } else {
    FlashDelta<T, kDim>(args, at, statistics.Delta(0));
  }
  CpAsyncWait<1>();
  __syncthreads();
  const int warp_row = WarpIndex() * 16;
  const bool has_rows = at.first_row + warp_row < own.rows;
  FlashGradientRows<T, kDim, kOwnKeys, kDropout> rows;
  rows.Start(own_x, own_y, warp_row, at.first_row + warp_row);
  if constexpr (!kOwnKeys) rows.LoadStatistics(args, at, statistics.Delta(0) + warp_row);
  for (int first_other = begin; first_other < end; first_other += kFlashTile) {
    const int stage = (first_other - begin) / kFlashTile % 2;
    CpAsyncWait<0>();
    __syncthreads();  // this stage is there, and the other is no longer read
    const int next = first_other + kFlashTile;
    float next_statistics = 0.0f;
    if (next < end) {
      StartStage<kDim>(tiles + (1 - stage) * 2 * kTileElements, other, next);
      CpAsyncCommit();
      if constexpr (kOwnKeys) next_statistics = statistics.Load(args, at, next);
    }
    if (has_rows) {
      FlashBackwardStep(args, at, tiles + stage * 2 * kTileElements, first_other, statistics, stage,
                        rows);
    }
    if constexpr (kOwnKeys) statistics.Store(1 - stage, next_statistics);
  }
  __syncthreads();  // the stages become memory of the warps
  if (has_rows) {
    rows.Finish(args, at, tiles + warp_row * kDim, tiles + kTileElements + warp_row * kDim);
  }
}

// The kernel over queries (kOwnKeys false) comes first: it leaves delta for the one over keys.
template <typename T, int kDim, bool kOwnKeys, bool kDropout>
__global__ __launch_bounds__(
    kFlashThreads,
    kFlashBackwardBlocks<kDim>) void FlashAttentionBackwardKernel(AttentionArgs args) {
  if constexpr (kHasFlash<T, kDim>) {
    const AttentionPlace at = PlaceOfBlock(args, kOwnKeys ? args.max_keys : args.max_queries,
                                           kFlashTile, args.causal && !kOwnKeys);
    if (at.first_row < (kOwnKeys ? at.keys : at.queries)) {
      FlashBackwardTile<T, kDim, kOwnKeys, kDropout>(args, at);
    }
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_
