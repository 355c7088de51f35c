// attention_kernel.cuh - the rows and statistics of a block, shared by the CUDA attention kernels.
// SPDX-License-Identifier: Apache-2.0
//
// Both families of kernels (attention_plain.cuh, attention_flash_*.cuh) use the same loops. A block
// owns rows of one (sequence, head) and streams the rows of the other side past them. Nothing is
// shared between blocks, and every sum has one fixed order:
//   forward      own queries, streamed keys:  out = dropout(softmax(scale Q K^T)) V
//   backward dQ  own queries, streamed keys:  dQ += dS K, and delta
//   backward dKV own keys, streamed queries:  dV += dropout(P)^T dO, dK += dS^T Q
// with, in backward (Dao et al. 2022, algorithm 4),
//   P = exp(scale Q K^T - log_sum_exp),  dS = scale P (mask dO V^T - delta),
//   delta_i = sum_d dO_id out_id.
// With a causal mask or a window, a block streams only the rows that some own row sees, and masks
// scores in the tiles at the ends of this range.
// The two kernels in backward both compute Q K^T and dO V^T: 7 products instead of 5. In return
// there is no float32 dQ in memory, no atomics, and the same bits every time.
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

// The part of the batch that a block works on. Positions are counted from the sequence's first
// token.
struct AttentionPlace {
  int first_query, first_key;  // tokens
  int queries, keys;           // number of the sequence's queries and keys
  int head;
  int first_row;  // position of the block's first own row
};

// Blocks are numbered by tile, then head, then sequence. Neighbouring blocks stream the same rows,
// which the cache then holds. The number of tiles is that of the longest sequence, so the last
// tiles of shorter ones have no rows. With `longest_first` the last tile, which sees the most keys
// under a causal mask, starts first.
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

// The keys that a query sees and the queries that see a key are ranges of positions, whose ends
// these functions return. Kernels with kWindow are for args.window > 0. For rows past the last one,
// the ranges may be empty.
template <bool kWindow>
__device__ __forceinline__ int FirstKey(const AttentionArgs& args, int query) {
  return kWindow ? max(0, query - args.window) : 0;
}
template <bool kWindow>
__device__ __forceinline__ int EndKey(const AttentionArgs& args, const AttentionPlace& at,
                                      int query) {
  if constexpr (kWindow) return min(at.keys, query + args.window + 1);
  return args.causal ? min(at.keys, query + 1) : at.keys;
}
template <bool kWindow>
__device__ __forceinline__ int FirstQuery(const AttentionArgs& args, int key) {
  if constexpr (kWindow) return max(0, key - args.window);
  return args.causal ? key : 0;
}
template <bool kWindow>
__device__ __forceinline__ int EndQuery(const AttentionArgs& args, const AttentionPlace& at,
                                        int key) {
  return kWindow ? min(at.queries, key + args.window + 1) : at.queries;
}
// Whether the query sees the key; both exist.
template <bool kWindow>
__device__ __forceinline__ bool IsSeen(const AttentionArgs& args, int query, int key) {
  if constexpr (kWindow) return abs(query - key) <= args.window;
  return !args.causal || key <= query;
}

// Where streaming of rows starts that are seen from `first` on: at a block of kDropoutBlock.
template <bool kWindow>
__device__ __forceinline__ int FirstStreamed(int first) {
  return kWindow ? first / kDropoutBlock * kDropoutBlock : first;
}

// First element of head `head` in row `token`.
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

// Index of the log_sum_exp and delta of query `position`.
__device__ __forceinline__ int64_t StatisticsIndex(const AttentionArgs& args,
                                                   const AttentionPlace& at, int position) {
  return (int64_t{at.first_query} + position) * args.num_heads + at.head;
}

// The row of a draw's number (ops/dropout.h). `position`: the lower of the draw's two queries.
__device__ __forceinline__ uint32_t DropoutRow(const AttentionArgs& args, const AttentionPlace& at,
                                               int position) {
  const auto number = static_cast<uint32_t>(RowNumber(args.row_numbers, at.first_query));
  return (number + static_cast<uint32_t>(position)) * static_cast<uint32_t>(args.num_heads) +
         static_cast<uint32_t>(at.head);
}
// `first_key`: the start of a block of kDropoutBlock. `t`: which two (and two) of its keys.
__device__ __forceinline__ KeptElements DrawScores(const AttentionArgs& args, uint32_t row,
                                                   int first_key, int t) {
  const auto keys = static_cast<uint32_t>(first_key / kDropoutBlock * 4 + t);
  return {args.dropout_key, args.dropout_threshold, row * uint64_t{kDropoutDraws} + keys};
}

// One of the two sides of backward. Its rows are x, a factor of the scores (q or k), and y, a
// factor of dP (dO or v).
template <typename T>
struct AttentionSide {
  const T *x, *y;
  int64_t x_stride, y_stride;
  int rows;  // number of the sequence's rows on this side
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
