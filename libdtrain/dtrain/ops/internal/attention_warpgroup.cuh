// attention_warpgroup.cuh - attention by products of warpgroups (wgmma), on an H100 or H200.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh. The rows, softmax, dropout and gradients are those of
// attention_flash_forward.cuh and attention_gradient_rows.cuh, because a warp of a warpgroup holds
// 16 rows in the same registers as a warp alone. Only products differ: they read 64 streamed rows
// from shared memory once for 64 own rows, not for 16.
// Geometry: a block of one warpgroup per 64 own rows of a (sequence, head); heads of 64 elements.
// 64
//   streamed rows at a time, and all of the tile's scores at once.
// Shared memory: forward two stages of K and V, 32 KiB; backward also the own rows, 48.5 KiB. The
//   warpgroup reads it through the async proxy, so copies are fenced before the barrier.
// Traffic: as attention_flash_*.cuh.
// Minimum time (model): the products take a third to a half of the time that exponentials, dropout
//   and conversions do, so up to 4 blocks of a multiprocessor share it, of which one multiplies
//   while others compute. Nothing passes through shared memory but the streamed rows.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_WARPGROUP_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_WARPGROUP_CUH_

#include "dtrain/ops/internal/attention_flash_backward.cuh"
#include "dtrain/ops/internal/attention_flash_forward.cuh"

namespace dtrain {

inline constexpr int kWarpgroupDim = 64;

// ---- forward
// -------------------------------------------------------------------------------------

// Processes one tile of keys. What dropout draws does not depend on the scores, so the warps draw
// while the first products run.
template <typename T, bool kDropout>
__device__ __forceinline__ void WarpgroupForwardStep(
    const AttentionArgs& args, const AttentionPlace& at, const T* k_tile, const T* v_tile,
    int first_key, FlashRows<T, kWarpgroupDim, true, kDropout>& row) {
  constexpr int kSteps = kWarpgroupDim / 16;
  const WarpgroupTile k = MakeWarpgroupTile(k_tile);
  const WarpgroupTile v = MakeWarpgroupTile(v_tile);
  WarpgroupArrive();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    WarpgroupProduct<T, false>(row.scores, row.q[step], k, step, step > 0);
  }
  WarpgroupCommit();
  KeptElements kept[kDropout ? kSteps : 1];
  if constexpr (kDropout) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      kept[step] = row.kept.Draw(args, row.first, first_key + 16 * step);
    }
  }
  WarpgroupWait<0>(row.scores);
  row.Mask(args, at, first_key);
  row.Softmax(args.scale * kLog2E);
  uint32_t p[kSteps][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    ResultsToLeft<T>(p[step], row.scores[2 * step], row.scores[2 * step + 1]);
    if constexpr (kDropout) DropLeft(p[step], kept[step]);
  }
  WarpgroupArrive();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    WarpgroupProduct<T, true>(row.out, p[step], v, step, true);
  }
  WarpgroupCommit();
  WarpgroupWait<0>(row.out);
}

template <typename T, bool kDropout>
__device__ __forceinline__ void WarpgroupForwardTile(const AttentionArgs& args,
                                                     const AttentionPlace& at) {
  constexpr int kDim = kWarpgroupDim;
  constexpr int kTileElements = kFlashTile * kDim;
  T* const tiles = reinterpret_cast<T*>(DynamicShared());
  T* const q_tile = tiles + 2 * kTileElements;
  const T* const k = HeadRow<T>(args.k, args.k_stride, at.first_key, args, at.head);
  const T* const v = HeadRow<T>(args.v, args.v_stride, at.first_key, args, at.head);
  const int keys = EndKey<false>(args, at, at.first_row + kFlashTile - 1);
  const auto start = [&](int stage, int first_key) {
    T* const tile = tiles + stage * 2 * kTileElements;
    StartTile<kDim, kFlashTile>(tile, k, args.k_stride, first_key, at.keys);
    StartTile<kDim, kFlashTile>(tile + kTileElements, v, args.v_stride, first_key, at.keys);
    CpAsyncCommit();
  };
  StartTile<kDim, kFlashTile>(q_tile,
                              HeadRow<T>(args.q, args.q_stride, at.first_query, args, at.head),
                              args.q_stride, at.first_row, at.queries);
  CpAsyncCommit();
  start(0, 0);
  CpAsyncWait<1>();
  __syncthreads();
  const int warp_row = WarpIndex() * 16;
  FlashRows<T, kDim, true, kDropout> row;
  row.Start(args, at, q_tile, warp_row);
  int stage = 0;
  for (int first_key = 0; first_key < keys; first_key += kFlashTile) {
    CpAsyncWait<0>();
    FenceAsyncProxy();
    __syncthreads();  // this stage has arrived, and the other one is no longer read
    if (first_key + kFlashTile < keys) start(1 - stage, first_key + kFlashTile);
    const T* const tile = tiles + stage * 2 * kTileElements;
    WarpgroupForwardStep(args, at, tile, tile + kTileElements, first_key, row);
    stage = 1 - stage;
  }
  __syncthreads();  // from here on the warps use the last stage's memory
  if (at.first_row + warp_row < at.queries) row.Finish(args, at, tiles + warp_row * kDim);
}

template <typename T, bool kDropout>
__global__ __launch_bounds__(kFlashThreads,
                             4) void WarpgroupAttentionForwardKernel(AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  if constexpr (kHasWarpgroups) {
    const AttentionPlace at = PlaceOfBlock(args, args.max_queries, kFlashTile, args.causal);
    if (at.first_row < at.queries) WarpgroupForwardTile<T, kDropout>(args, at);
  }
}

// ---- backward ----

// For FlashAttentionBackwardKernel.
template <typename TElement, bool kKeys, bool kDrop>
struct WarpgroupBackwardTraits {
  static constexpr bool kIsThere = kHasWarpgroups;
  using T = TElement;
  static constexpr int kDim = kWarpgroupDim;
  static constexpr bool kOwnKeys = kKeys;
  static constexpr bool kDropout = kDrop;
  static constexpr bool kWindow = false;
  static constexpr int kChunk = kFlashTile;
  static constexpr bool kHoldsX = false;
  static constexpr bool kHoldsY = false;
  static constexpr bool kKeepsScores = false;
  static constexpr bool kWarpgroup = true;
  static constexpr int kBlocks = 3;
  static constexpr int kOwnX = 4;  // tiles
  static constexpr int kOwnY = 5;
  static constexpr int kTiles = 6;
  static constexpr size_t kSharedBytes =
      size_t{kTiles} * kFlashTile * kDim * sizeof(T) + 4 * kFlashTile * sizeof(float);
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_WARPGROUP_CUH_
