// embedding_kernel.cuh - the CUDA kernels of the embedding: gather, and the sum per table row.
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a table row is a sum over the tokens that looked it up. Atomics would add them in
// a different order each time; here the tokens are put in order of (id, position) first:
//   1. SortTokensKernelGpu (embedding_cuda.cu) sorts runs of tokens, a block each;
//   2. MergeRunsKernelGpu finds each token's place among all by binary search in the other runs;
//   3. EmbeddingSumKernelGpu adds along equal stretches of kSumRun tokens of that order, whatever
//      the ids are, so that a word that is every tenth token does not keep one warp busy. Sums that
//      begin and end within a stretch go to the table, the others to partials;
//   4. EmbeddingJoinKernelGpu adds the partials of a row, in order.
// Nothing depends on the grid or on which block runs first.
#ifndef DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_CUH_

#include "dtrain/device/cuda/dropout.cuh"
#include "dtrain/ops/internal/embedding_kernel.h"
#include "dtrain/ops/internal/row_packs.cuh"

namespace dtrain {

// Columns a thread works on at a time: the eight that share a Philox block and fill 16 bytes of a
// 16-bit type, or one where rows are not aligned.
inline constexpr int kVectorColumns = 8;

// Bit j is set where column c + j of token t is kept; without dropout all are. After TakeStep().
__device__ __forceinline__ uint32_t KeptColumns(const DropoutDraw& dropout, int64_t t,
                                                int64_t columns, int c) {
  if (!dropout.on) return 0xffu;
  const auto element = static_cast<uint64_t>(RowNumber(dropout.row_numbers, t) * columns + c);
  return KeptElements(dropout.key, dropout.threshold, element / 8) >> (element % 8);
}

inline constexpr int kGatherThreads = 128;

/// out[t] = dropout(scale * table[ids[t]] + positions[position_ids[t]])
/// Geometry: a warp per token, 4 tokens a block; a lane takes kColumns neighbouring columns.
/// Traffic: (2 or 3) * sizeof(T) * tokens * columns + 8 * tokens bytes; rows of frequent tokens
///   come from the L2 cache. Floor (model): bytes / memory bandwidth.
/// kColumns == 1 draws a Philox block per element and is for odd widths alone.
template <typename T, int kColumns>
__global__ __launch_bounds__(kGatherThreads) void EmbeddingForwardKernelGpu(
    EmbeddingForwardArgs args) {
  TakeStep(args.dropout.key, args.dropout.device_step);
  constexpr int kTokens = kGatherThreads / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kTokens + threadIdx.x / kWarpSize;
  if (t >= args.token_end) return;
  const int32_t id = args.ids[t];
  const T* const row = id == args.zero_id ? nullptr : RowAt<T>(args.table, id);
  const T* const position =
      args.positions.data == nullptr ? nullptr : RowAt<T>(args.positions, args.position_ids[t]);
  T* const out = RowAt<T>(args.out, t);
  const int columns = static_cast<int>(args.columns);
  const float factor = args.dropout.on ? args.dropout.scale : 1.0f;
#pragma unroll 2
  for (int c = lane * kColumns; c < columns; c += kWarpSize * kColumns) {
    float value[kColumns] = {};
    float offset[kColumns] = {};
    if (row != nullptr) LoadFloats(row + c, value);
    if (position != nullptr) LoadFloats(position + c, offset);
    const uint32_t kept = KeptColumns(args.dropout, t, args.columns, c);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float sum = value[j] * args.scale + offset[j];
      value[j] = (kept >> j & 1u) != 0 ? sum * factor : 0.0f;
    }
    StoreFloats(out + c, value);
  }
}

// A token in the order of the sums: its row of the table, then its place in the batch.
using TokenKey = uint64_t;
__device__ __forceinline__ TokenKey MakeTokenKey(int32_t row, int64_t token) {
  return static_cast<TokenKey>(static_cast<uint32_t>(row)) << 32 | static_cast<uint32_t>(token);
}
__device__ __forceinline__ int32_t RowOfKey(TokenKey key) {
  return static_cast<int32_t>(key >> 32);
}
__device__ __forceinline__ int64_t TokenOfKey(TokenKey key) {
  return static_cast<int64_t>(key & 0xffffffffu);
}

// Tokens of one stretch of sums, and of those the ones whose loads wait for memory together.
inline constexpr int kSumRun = 16;
inline constexpr int kSumBatch = 4;
inline constexpr int kSumThreads = 128;

struct EmbeddingSumArgs {
  Rows d_out, d_table;
  const TokenKey* order;  // [tokens]
  // Sums of a stretch that belong to a row which began before it (head) or ends after it (tail):
  // [stretches, columns] each.
  float* heads;
  float* tails;
  float scale;
  int32_t zero_row;  // gets no gradient
  DropoutDraw dropout;
  int64_t tokens, columns;
  int slabs;  // blocks that share a stretch, each kSumThreads * kColumns of the columns
};

// Which tokens of a stretch are the first and the last of their row.
struct StretchEdges {
  int64_t begin;
  int count;
  uint32_t firsts = 0, lasts = 0;  // bit i: token begin + i

  __device__ __forceinline__ StretchEdges(const EmbeddingSumArgs& args, int64_t stretch) {
    begin = stretch * kSumRun;
    count = static_cast<int>(args.tokens - begin < kSumRun ? args.tokens - begin : kSumRun);
    int32_t before = begin == 0 ? -1 : RowOfKey(args.order[begin - 1]);
#pragma unroll
    for (int i = 0; i <= kSumRun; ++i) {
      const int64_t at = begin + i;
      const int32_t row = at < args.tokens ? RowOfKey(args.order[at]) : -1;
      if (row != before) {
        firsts |= 1u << i;
        if (i > 0) lasts |= 1u << (i - 1);
      }
      before = row;
    }
    const uint32_t own = (1u << count) - 1u;
    firsts &= own;
    lasts &= own;
  }

  // Whether the row of token i begins and ends within the stretch.
  __device__ __forceinline__ bool IsWhole(int i) const {
    return (firsts & ((2u << i) - 1u)) != 0 && lasts >> i != 0;
  }
  // Whether the last token's row begins here and goes on in the next stretch.
  __device__ __forceinline__ bool HasTail() const {
    return firsts != 0 && lasts >> (kSumRun - 1) == 0 && count == kSumRun;
  }
};

/// d_table[row] += scale * sum over its tokens of dropout'(d_out[token]), in token order.
/// Geometry: blocks of up to 128 threads, (stretch of 16 tokens in order) x (slab of columns); a
///   thread takes kColumns columns through the stretch, 4 tokens' loads at a time together with the
///   table rows they are added to.
/// Traffic: sizeof(T) * tokens * columns + 8 * (rows with a gradient) * columns, and 4 * columns
///   for each of at most two open sums a stretch, read once more by the join.
/// Determinism: yes. A row within one stretch is added in token order, as on the CPU.
template <typename T, int kColumns>
__global__ __launch_bounds__(kSumThreads) void EmbeddingSumKernelGpu(EmbeddingSumArgs args) {
  TakeStep(args.dropout.key, args.dropout.device_step);
  const int64_t stretch = static_cast<int64_t>(blockIdx.x) / args.slabs;
  const int slab = static_cast<int>(static_cast<int64_t>(blockIdx.x) % args.slabs);
  const int c = (slab * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kColumns;
  if (c >= args.columns) return;
  const StretchEdges edges(args, stretch);
  const float factor = args.scale * (args.dropout.on ? args.dropout.scale : 1.0f);
  float sum[kColumns] = {};
#pragma unroll 1
  for (int base = 0; base < edges.count; base += kSumBatch) {
    TokenKey key[kSumBatch];
    float d[kSumBatch][kColumns];
    float old[kSumBatch][kColumns];
#pragma unroll
    for (int k = 0; k < kSumBatch; ++k) {
      const int i = base + k;
      if (i >= edges.count) break;
      key[k] = args.order[edges.begin + i];
      LoadFloats(RowAt<T>(args.d_out, TokenOfKey(key[k])) + c, d[k]);
      if ((edges.firsts >> i & 1u) != 0 && edges.IsWhole(i)) {
        LoadFloats(RowAt<float>(args.d_table, RowOfKey(key[k])) + c, old[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kSumBatch; ++k) {
      const int i = base + k;
      if (i >= edges.count) break;
      const bool whole = edges.IsWhole(i);
      const bool first = (edges.firsts >> i & 1u) != 0;
      const uint32_t kept = KeptColumns(args.dropout, TokenOfKey(key[k]), args.columns, c);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float start = !first ? sum[j] : whole ? old[k][j] : 0.0f;
        // Fused by name, so that any kColumns round alike.
        sum[j] = (kept >> j & 1u) != 0 ? __fmaf_rn(d[k][j], factor, start) : start;
      }
      const bool last = (edges.lasts >> i & 1u) != 0;
      if (whole && last && RowOfKey(key[k]) != args.zero_row) {
        StoreFloats(RowAt<float>(args.d_table, RowOfKey(key[k])) + c, sum);
      } else if (!whole && (last || i + 1 == edges.count)) {
        // An open sum: one that began earlier is the head, whether it ends here or not.
        const bool began_here = (edges.firsts & ((2u << i) - 1u)) != 0;
        float* const open = began_here ? args.tails : args.heads;
        StoreFloats(open + stretch * args.columns + c, sum);
      }
    }
  }
}

// Stretches whose heads are on their way from memory together.
inline constexpr int kJoinBatch = 8;

/// d_table[row] += the tail of the stretch where the row begins + the heads of those that follow.
/// Geometry: as EmbeddingSumKernelGpu; a block whose stretch has no tail ends at once.
/// Traffic: 4 * columns per open sum, 8 * columns per row with one.
template <int kColumns>
__global__ __launch_bounds__(kSumThreads) void EmbeddingJoinKernelGpu(EmbeddingSumArgs args) {
  const int64_t stretch = static_cast<int64_t>(blockIdx.x) / args.slabs;
  const int slab = static_cast<int>(static_cast<int64_t>(blockIdx.x) % args.slabs);
  const int c = (slab * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kColumns;
  if (c >= args.columns || !StretchEdges(args, stretch).HasTail()) return;
  const int32_t row = RowOfKey(args.order[(stretch + 1) * kSumRun - 1]);
  if (row == args.zero_row) return;
  float sum[kColumns];
  float value[kColumns];
  float* const target = RowAt<float>(args.d_table, row) + c;
  LoadFloats(target, sum);
  LoadFloats(args.tails + stretch * args.columns + c, value);
#pragma unroll
  for (int j = 0; j < kColumns; ++j) sum[j] += value[j];
  // The next stretch begins with this row: HasTail().
  bool more = true;
  for (int64_t next = stretch + 1; more; next += kJoinBatch) {
    float heads[kJoinBatch][kColumns];
    bool begins_with_row[kJoinBatch];
#pragma unroll
    for (int k = 0; k < kJoinBatch; ++k) {
      const int64_t begin = (next + k) * kSumRun;
      begins_with_row[k] = begin < args.tokens && RowOfKey(args.order[begin]) == row;
      if (begins_with_row[k]) LoadFloats(args.heads + (next + k) * args.columns + c, heads[k]);
    }
#pragma unroll
    for (int k = 0; k < kJoinBatch; ++k) {
      if (!begins_with_row[k]) continue;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[j] += heads[k][j];
    }
    more = begins_with_row[kJoinBatch - 1];
  }
  StoreFloats(target, sum);
}

struct SinusoidArgs {
  Rows table;
  int64_t rows, hidden;
};

/// table[p, i] = sin(angle), table[p, hidden / 2 + i] = cos(angle), angle = p / 10000^(2 i /
/// hidden) A thread per angle, in double as on the CPU; runs once in a program.
template <typename T>
__global__ __launch_bounds__(kGatherThreads) void SinusoidKernelGpu(SinusoidArgs args) {
  const int64_t half = args.hidden / 2;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kGatherThreads + threadIdx.x;
  if (at >= args.rows * half) return;
  const int64_t p = at / half;
  const int64_t i = at % half;
  const double angle = static_cast<double>(p) / pow(10000.0, 2.0 * static_cast<double>(i) /
                                                                 static_cast<double>(args.hidden));
  T* const row = RowAt<T>(args.table, p);
  row[i] = FromFloat<T>(static_cast<float>(sin(angle)));
  row[half + i] = FromFloat<T>(static_cast<float>(cos(angle)));
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_CUH_
