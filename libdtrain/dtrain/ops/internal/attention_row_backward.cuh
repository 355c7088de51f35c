// attention_row_backward.cuh - attention's gradients for sequences of up to 128 rows in one launch.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh and attention_gradient_rows.cuh. A block holds all of a
// (sequence, head). Scores and dropout are therefore computed once (5 products), and dQ, dK and dV
// are written once.
// Geometry: one block of 8 warps per (sequence, head). Every warp owns 16 keys. For each tile of 64
//   queries it adds to its dK and dV, and writes dS to shared memory. After a barrier the warps
//   split the tile's dQ = dS K into 16 queries and half of the columns each.
// Shared memory: k, v, q and d_out, 128 rows each, requested at the start; dS of one tile, 16 KiB;
//   1 KiB of statistics. 49 or 81 KiB.
// Traffic: q, k, v, out, d_out, dq, dk and dv once.
// Minimum time (model): 10 * queries * keys * kDim operations at the mma.sync rate. Two blocks
//   share a multiprocessor: one computes while the other waits for its rows. The exception is sm_80
//   with heads of 64 and no dropout.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_ROW_BACKWARD_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_ROW_BACKWARD_CUH_

#include "dtrain/ops/internal/attention_gradient_rows.cuh"

namespace dtrain {

inline constexpr int kRowKernelRows = 128;  // the longest sequence
inline constexpr int kRowKernelThreads = kRowKernelRows / 16 * kWarpSize;

template <typename TElement, int kHeadDim, bool kDrop>
struct RowBackwardTraits {
  using T = TElement;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kOwnKeys = true;
  static constexpr bool kDropout = kDrop;
  static constexpr bool kWindow = false;
  static constexpr int kChunk = 16;  // dQ's products rely on this: a chunk is one step of their
                                     // depth
  // From sm_80 on, the rows of two blocks fit: 2 * (81 + 1) KiB is all of an A100's 164 KiB. (sm_86
  // and sm_89, with 100 KiB, run the same code; heads of 64 then run one block at a time.) Two
  // blocks leave 128 registers per thread, with which heads of 64 without dropout would spill on
  // sm_80.
  static constexpr int kBlocks =
      kTargetCapability >= 90 || (kTargetCapability >= 80 && (kDrop || kDim == 32)) ? 2 : 1;
  static constexpr bool kHoldsX = kBlocks == 1;
  static constexpr bool kHoldsY = kBlocks == 1;
  static constexpr bool kKeepsScores = true;
  static constexpr bool kWarpgroup = false;
  static constexpr size_t kSharedBytes =
      kRowKernelRows * (4 * kDim + kFlashTile) * sizeof(T) + 2 * kRowKernelRows * sizeof(float);
};

template <typename Traits>
struct RowBackwardMemory {
  using T = typename Traits::T;
  T *k, *v, *q, *d_out;  // [128, kDim]
  T* ds;                 // [128 keys, 64 queries]
  float *base2, *delta;  // [128]

  __device__ __forceinline__ RowBackwardMemory() {
    constexpr int kElements = kRowKernelRows * Traits::kDim;
    k = reinterpret_cast<T*>(DynamicShared());
    v = k + kElements;
    q = v + kElements;
    d_out = q + kElements;
    ds = d_out + kElements;
    base2 = reinterpret_cast<float*>(ds + kRowKernelRows * kFlashTile);
    delta = base2 + kRowKernelRows;
  }

  // Starts copying rows of both matrices of a side: [first, first + 64) of q and d_out, or all of k
  // and v.
  template <int kRows>
  static __device__ __forceinline__ void Start(T* x, T* y, const AttentionSide<T>& side,
                                               int first) {
    StartTile<Traits::kDim, kRows, kRowKernelThreads>(x + first * Traits::kDim, side.x,
                                                      side.x_stride, first, side.rows);
    StartTile<Traits::kDim, kRows, kRowKernelThreads>(y + first * Traits::kDim, side.y,
                                                      side.y_stride, first, side.rows);
  }

  // Fills the statistics of all queries. Past the end they are infinity and 0, which makes the
  // probabilities 0.
  __device__ __forceinline__ void FillStatistics(const AttentionArgs& args,
                                                 const AttentionPlace& at) const {
    const int query = static_cast<int>(threadIdx.x) / 2;
    const float value = FlashDelta<T, Traits::kDim>(args, at, query);
    if (threadIdx.x % 2 == 0) {
      delta[query] = value;
    } else {
      base2[query] = query < at.queries
                         ? args.log_sum_exp[StatisticsIndex(args, at, query)] * kLog2E
                         : -MinusInfinity();
    }
  }
};

// The warp's part of dQ for the 64 queries from `first_query` on: 16 queries and half of the
// columns.
template <typename Traits>
__device__ __forceinline__ void RowQueryGradients(const AttentionArgs& args,
                                                  const AttentionPlace& at,
                                                  const RowBackwardMemory<Traits>& memory,
                                                  int first_query) {
  using T = typename Traits::T;
  constexpr int kDim = Traits::kDim;
  constexpr int kColumns = kDim / 2;
  const int tile_row = WarpIndex() % 4 * 16;
  const int first_chunk = WarpIndex() / 4 * (kColumns / 8);
  const int query = first_query + tile_row;
  if (query >= at.queries) return;
  float sums[kColumns / 8][4] = {};
  const int keys = args.causal ? min(at.keys, query + 16) : at.keys;
#pragma unroll 1
  for (int key = 0; key < keys; key += 16) {
    uint32_t ds[4];
    LoadLeftTransposed<kFlashTile>(ds, memory.ds, tile_row / 8, key);
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      MultiplyPair<T>(sums[n], sums[n + 1], ds,
                      LoadRightTransposed<kDim>(memory.k, key, first_chunk + n));
    }
  }
  const float factor[2] = {args.scale, args.scale};
  // The products of these queries with keys are finished, so their rows of q can be reused.
  StoreResults<kDim, kColumns>(
      sums, factor, at.queries - query, memory.q + query * kDim,
      HeadRow<T>(args.dq, args.dq_stride, at.first_query + query, args, at.head), args.dq_stride,
      first_chunk);
}

template <typename Traits>
__device__ __forceinline__ void RowBackwardUnit(const AttentionArgs& args,
                                                const AttentionPlace& at) {
  using T = typename Traits::T;
  using Memory = RowBackwardMemory<Traits>;
  constexpr int kDim = Traits::kDim;
  const Memory memory;
  const AttentionSide<T> keys = AttentionSideOf<T, false>(args, at);
  const AttentionSide<T> queries = AttentionSideOf<T, true>(args, at);
  Memory::template Start<kRowKernelRows>(memory.k, memory.v, keys, 0);
  Memory::template Start<kFlashTile>(memory.q, memory.d_out, queries, 0);
  CpAsyncCommit();
  Memory::template Start<kFlashTile>(memory.q, memory.d_out, queries, kFlashTile);
  CpAsyncCommit();
  memory.FillStatistics(args, at);
  const int warp_row = WarpIndex() * 16;
  const bool has_rows = warp_row < at.keys;
  FlashGradientRows<Traits> rows;
  CpAsyncWait<1>();
  __syncthreads();
  rows.Start(args, at, memory.k, memory.v, warp_row);
  for (int first_query = 0; first_query < at.queries; first_query += kFlashTile) {
    if (first_query > 0) CpAsyncWait<0>();
    __syncthreads();  // the tile's rows have arrived, and the previous tile's dS is no longer read
    if (has_rows) {
      rows.Add(args, at,
               {memory.q + first_query * kDim, memory.d_out + first_query * kDim, first_query,
                memory.base2 + first_query, memory.delta + first_query, memory.ds});
    }
    __syncthreads();
    RowQueryGradients(args, at, memory, first_query);
  }
  CpAsyncWait<0>();
  __syncthreads();  // from here on the warps use the memory of k and v
  if (has_rows) rows.Finish(args, at, memory.k + warp_row * kDim, memory.v + warp_row * kDim);
}

template <typename Traits>
__global__ __launch_bounds__(kRowKernelThreads,
                             Traits::kBlocks) void RowAttentionBackwardKernel(AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  if constexpr (kTargetCapability >= 80) {
    const AttentionPlace at = PlaceOfBlock(args, kRowKernelRows, kRowKernelRows, false);
    if (at.keys > 0) RowBackwardUnit<Traits>(args, at);
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_ROW_BACKWARD_CUH_
