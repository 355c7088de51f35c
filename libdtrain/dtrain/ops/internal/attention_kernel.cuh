// attention_kernel.cuh - what the CUDA kernels of attention share: a block's rows and statistics.
// SPDX-License-Identifier: Apache-2.0
//
// Both families of kernels (attention_plain.cuh, attention_flash_*.cuh) walk the same loops. A
// block has rows of its own of one (sequence, head) and streams the rows of the other side past
// them, so nothing is shared between blocks and every result has one fixed order of sums:
//   forward      own queries, streamed keys:  out = dropout(softmax(scale Q K^T)) V
//   backward dQ  own queries, streamed keys:  dQ += dS K, and delta
//   backward dKV own keys, streamed queries:  dV += dropout(P)^T dO, dK += dS^T Q
// with, in backward (Dao et al. 2022, algorithm 4),
//   P = exp(scale Q K^T - log_sum_exp),  dS = scale P (mask dO V^T - delta),
//   delta_i = sum_d dO_id out_id.
// The price of two kernels in backward is computing Q K^T and dO V^T twice: 7 products where 5
// would do; what it buys is no float32 dQ in memory, no atomics and the same bits every time.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_CUH_

#include "dtrain/device/cuda/dropout.cuh"
#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/attention_kernel.h"

namespace dtrain {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

__device__ __forceinline__ float MinusInfinity() { return __uint_as_float(0xff800000u); }

__device__ __forceinline__ int LaneIndex() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int WarpIndex() { return static_cast<int>(threadIdx.x) / kWarpSize; }

// The part of the batch that a block works on. Positions count from the sequence's first token.
struct AttentionPlace {
  int first_query, first_key;  // tokens
  int queries, keys;           // of the sequence
  int head;
  int first_row;  // of the block's own rows, a position
};

// Blocks are numbered tile first, then head, then sequence: neighbours stream the same rows, which
// the cache then holds. Tiles are counted for the longest sequence; of a shorter one the last have
// no rows. `longest_first`: the last tile, which sees the most under a causal mask, starts first.
__device__ __forceinline__ AttentionPlace PlaceOfBlock(const AttentionArgs& args, int64_t max_rows,
                                                       int rows, bool longest_first) {
  const auto tiles = static_cast<unsigned>((max_rows + rows - 1) / rows);
  const unsigned tile = blockIdx.x % tiles;
  const unsigned unit = blockIdx.x / tiles;
  const unsigned sequence = unit / static_cast<unsigned>(args.num_heads);
  AttentionPlace place;
  place.head = static_cast<int>(unit % static_cast<unsigned>(args.num_heads));
  place.first_query = args.query_offsets[sequence];
  place.queries = args.query_offsets[sequence + 1] - args.query_offsets[sequence];
  place.first_key = args.key_offsets[sequence];
  place.keys = args.key_offsets[sequence + 1] - args.key_offsets[sequence];
  place.first_row = static_cast<int>(longest_first ? tiles - 1 - tile : tile) * rows;
  return place;
}

// First element of row `token`, head `head`.
template <typename T>
__device__ __forceinline__ const T* HeadRow(const void* base, int64_t stride, int64_t token,
                                            const AttentionArgs& args, int head) {
  return static_cast<const T*>(base) + token * stride + static_cast<int64_t>(head) * args.head_dim;
}
template <typename T>
__device__ __forceinline__ T* HeadRow(void* base, int64_t stride, int64_t token,
                                      const AttentionArgs& args, int head) {
  return static_cast<T*>(base) + token * stride + static_cast<int64_t>(head) * args.head_dim;
}

// Where query `position` keeps its log_sum_exp and delta.
__device__ __forceinline__ int64_t StatisticsIndex(const AttentionArgs& args,
                                                   const AttentionPlace& at, int position) {
  return (int64_t{at.first_query} + position) * args.num_heads + at.head;
}

// The group of eight (ops/dropout.h) of query `position` and its first eight keys.
__device__ __forceinline__ uint64_t DropoutGroup(const AttentionArgs& args,
                                                 const AttentionPlace& at, int position) {
  const int64_t number = RowNumber(args.row_numbers, at.first_query) + position;
  const int64_t row = number * args.num_heads + at.head;
  return static_cast<uint64_t>(row) * static_cast<uint64_t>(kDropoutKeys / 8);
}

// One of the two sides of backward: its rows of scores' factors (q or k) and of dP's (dO or v).
template <typename T>
struct AttentionSide {
  const T *x, *y;
  int64_t x_stride, y_stride;
  int rows;  // of the sequence
};

template <typename T, bool kQueries>
__device__ __forceinline__ AttentionSide<T> AttentionSideOf(const AttentionArgs& args,
                                                            const AttentionPlace& at) {
  if constexpr (kQueries) {
    return {HeadRow<T>(args.q, args.q_stride, at.first_query, args, at.head),
            HeadRow<T>(args.d_out, args.d_out_stride, at.first_query, args, at.head), args.q_stride,
            args.d_out_stride, at.queries};
  } else {
    return {HeadRow<T>(args.k, args.k_stride, at.first_key, args, at.head),
            HeadRow<T>(args.v, args.v_stride, at.first_key, args, at.head), args.k_stride,
            args.v_stride, at.keys};
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_CUH_
