// attention_flash_backward.cuh - attention's gradients with tensor cores, for 16-bit types.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh and attention_gradient_rows.cuh. One kernel is launched in two
// roles: first it owns queries, then it owns keys. The second role reads the delta that the first
// one wrote.
// Geometry: 4 warps of 16 own rows each, with their fragments and sums in registers. A block
//   streams the other side in tiles of 64 rows.
// Shared memory: two stages of x and y, filled by cp.async. Own rows pass through the second stage
//   into registers before the loop. 4 * 64 * kDim * 2 bytes (5 instead of 4 with kDim 128 and own
//   keys) + 1 KiB.
// Traffic: own rows once; streamed rows once per block, from the cache; out and d_out once more for
//   delta.
// Minimum time (model): 14 * queries * keys * kDim operations for both roles, at the mma.sync rate.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_

#include "dtrain/ops/internal/attention_gradient_rows.cuh"

namespace dtrain {

// The chunk size and the minimum number of resident blocks that the registers allow without spills.
// With own keys there are two sums.
template <typename TElement, int kHeadDim, bool kKeys, bool kDrop, bool kNear>
struct FlashBackwardTraits {
  static constexpr bool kIsThere = kHasFlash<TElement, kHeadDim>;
  using T = TElement;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kOwnKeys = kKeys;
  static constexpr bool kDropout = kDrop;
  static constexpr bool kWindow = kNear;
  static constexpr int kChunk = kDim == 32 || (kDim == 64 && !kOwnKeys) ? 32 : 16;
  static constexpr bool kHoldsX = true;
  static constexpr bool kHoldsY = kDim < 128 || !kOwnKeys;
  static constexpr bool kKeepsScores = false;
  static constexpr int kBlocks = kDim <= 64 && kTargetCapability >= 80 ? 3 : 1;
  static constexpr bool kWarpgroup = false;
  // Own y, if it is not held in registers, is stored after the stages.
  static constexpr int kOwnX = 2;  // tiles
  static constexpr int kOwnY = kHoldsY ? 3 : 4;
  static constexpr int kTiles = kHoldsY ? 4 : 5;
  static constexpr size_t kSharedBytes =
      size_t{kTiles} * kFlashTile * kDim * sizeof(T) + 4 * kFlashTile * sizeof(float);
};

// log_sum_exp (base 2) and delta of 64 queries, in two stages.
struct FlashStatistics {
  float* memory;

  __device__ __forceinline__ float* Base2(int stage) const {
    return memory + stage * 2 * kFlashTile;
  }
  __device__ __forceinline__ float* Delta(int stage) const { return Base2(stage) + kFlashTile; }

  // Thread i loads one of 128 values: Base2 of the 64 queries from `first` on, then their Delta.
  // Queries past the end get infinity, which makes their probabilities 0.
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

// Starts copying 64 rows of both matrices of a side into one stage.
template <int kDim, typename T>
__device__ __forceinline__ void StartStage(T* tiles, const AttentionSide<T>& side, int first) {
  StartTile<kDim, kFlashTile>(tiles, side.x, side.x_stride, first, side.rows);
  StartTile<kDim, kFlashTile>(tiles + kFlashTile * kDim, side.y, side.y_stride, first, side.rows);
}

template <typename Traits>
__device__ __forceinline__ void FlashBackwardTile(const AttentionArgs& args,
                                                  const AttentionPlace& at) {
  using T = typename Traits::T;
  constexpr int kDim = Traits::kDim;
  constexpr bool kOwnKeys = Traits::kOwnKeys;
  constexpr int kTileElements = kFlashTile * kDim;
  T* const tiles = reinterpret_cast<T*>(DynamicShared());
  T* const own_x = tiles + Traits::kOwnX * kTileElements;
  T* const own_y = tiles + Traits::kOwnY * kTileElements;
  const FlashStatistics statistics = {
      reinterpret_cast<float*>(tiles + Traits::kTiles * kTileElements)};
  const AttentionSide<T> own = AttentionSideOf<T, !kOwnKeys>(args, at);
  const AttentionSide<T> other = AttentionSideOf<T, kOwnKeys>(args, at);
  constexpr bool kWindow = Traits::kWindow;
  const int last = at.first_row + kFlashTile - 1;
  const int begin = FirstStreamed<kWindow>(kOwnKeys ? FirstQuery<kWindow>(args, at.first_row)
                                                    : FirstKey<kWindow>(args, at.first_row));
  const int end = kOwnKeys ? EndQuery<kWindow>(args, at, last) : EndKey<kWindow>(args, at, last);
  StartTile<kDim, kFlashTile>(own_x, own.x, own.x_stride, at.first_row, own.rows);
  StartTile<kDim, kFlashTile>(own_y, own.y, own.y_stride, at.first_row, own.rows);
  CpAsyncCommit();
  if (begin < end) StartStage<kDim>(tiles, other, begin);
  CpAsyncCommit();
  if constexpr (kOwnKeys) {
    statistics.Store(0, statistics.Load(args, at, begin));
  } else {
    const int row = static_cast<int>(threadIdx.x) / 2;
    const float delta = FlashDelta<T, kDim>(args, at, at.first_row + row);
    if (threadIdx.x % 2 == 0) {
      statistics.Delta(0)[row] = delta;
      if (at.first_row + row < at.queries) {
        args.delta[StatisticsIndex(args, at, at.first_row + row)] = delta;
      }
    }
  }
  CpAsyncWait<1>();
  __syncthreads();
  const int warp_row = WarpIndex() * 16;
  // Warps of a warpgroup work together, whether they have rows or not.
  const bool has_rows = Traits::kWarpgroup || at.first_row + warp_row < own.rows;
  FlashGradientRows<Traits> rows;
  rows.Start(args, at, own_x, own_y, warp_row);
  if constexpr (!kOwnKeys) rows.LoadStatistics(args, at, statistics.Delta(0) + warp_row);
  for (int first_other = begin; first_other < end; first_other += kFlashTile) {
    const int stage = (first_other - begin) / kFlashTile % 2;
    CpAsyncWait<0>();
    if constexpr (Traits::kWarpgroup) FenceAsyncProxy();
    __syncthreads();  // this stage has arrived, and the other one is no longer read
    const int next = first_other + kFlashTile;
    float next_statistics = 0.0f;
    if (next < end) {
      StartStage<kDim>(tiles + (1 - stage) * 2 * kTileElements, other, next);
      CpAsyncCommit();
      if constexpr (kOwnKeys) next_statistics = statistics.Load(args, at, next);
    }
    if (has_rows) {
      const T* const x = tiles + stage * 2 * kTileElements;
      rows.Add(args, at,
               {x, x + kTileElements, first_other, statistics.Base2(stage), statistics.Delta(stage),
                nullptr});
    }
    if constexpr (kOwnKeys) statistics.Store(1 - stage, next_statistics);
  }
  __syncthreads();  // from here on the warps use the stages' memory
  if (has_rows) {
    rows.Finish(args, at, tiles + warp_row * kDim, tiles + kTileElements + warp_row * kDim);
  }
}

// Launched over queries first (kOwnKeys false), which writes delta for the launch over keys.
template <typename Traits>
__global__ __launch_bounds__(kFlashThreads, Traits::kBlocks) void FlashAttentionBackwardKernel(
    AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  if constexpr (Traits::kIsThere) {
    constexpr bool kOwnKeys = Traits::kOwnKeys;
    const AttentionPlace at = PlaceOfBlock(args, kOwnKeys ? args.max_keys : args.max_queries,
                                           kFlashTile, args.causal && !kOwnKeys);
    if (at.first_row < (kOwnKeys ? at.keys : at.queries)) FlashBackwardTile<Traits>(args, at);
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_FLASH_BACKWARD_CUH_
