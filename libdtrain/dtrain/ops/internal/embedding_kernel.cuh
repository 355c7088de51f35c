// embedding_kernel.cuh - the embedding's CUDA kernels: gather, and the gradient of each table row.
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a table row is a sum over the tokens that looked it up. Atomics would add them in
// a different order each time. Instead the tokens are first sorted by (id, position):
//   1. SortTokensKernelGpu (embedding_cuda.cu) sorts runs of tokens, one block per run.
//   2. MergeRunsKernelGpu finds each token's place among all, by binary search in the other runs.
//   3. EmbeddingSumKernelGpu adds along stretches of kSumRun tokens in sorted order. Stretches have
//      the same length whatever the ids are, so a very frequent word does not occupy a single warp.
//      Sums that begin and end within a stretch go to the table, the others to partial sums.
//   4. EmbeddingJoinKernelGpu adds the partial sums of a row, in order.
// The result does not depend on the grid or on the order in which blocks run.
#ifndef DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_CUH_
#define DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_CUH_

#include "dtrain/device/cuda/dropout.cuh"
#include "dtrain/ops/internal/embedding_kernel.h"
#include "dtrain/ops/internal/row_packs.cuh"

namespace dtrain {

// Number of columns a thread processes at a time: eight, which share a Philox block and fill 16
// bytes of a 16-bit type; or one if rows are not aligned.
inline constexpr int kVectorColumns = 8;

// The dropout of columns [c, c + kColumns) of token t; without dropout all are kept. Call
// TakeStep() first.
template <int kColumns>
__device__ __forceinline__ KeptElements KeptColumns(const DropoutDraw& dropout, int64_t t,
                                                    int64_t columns, int c) {
  if (!dropout.on) return {};
  const auto element = static_cast<uint64_t>(RowNumber(dropout.row_numbers, t) * columns + c);
  KeptElements kept(dropout.key, dropout.threshold, element / 8);
  if constexpr (kColumns == 1) kept.MoveToFirst(static_cast<int>(element % 8));
  return kept;
}

inline constexpr int kGatherThreads = 128;

/// out[t] = dropout(scale * table[ids[t]] + positions[position_ids[t]])
/// Geometry: a warp per token, 4 tokens per block; a lane handles kColumns neighbouring columns.
/// Traffic: (2 or 3) * sizeof(T) * tokens * columns + 8 * tokens bytes. Rows of frequent tokens
///   come from the L2 cache. Time is at least bytes / memory bandwidth (model).
/// kColumns == 1 draws a Philox block per element and is only for odd widths.
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
    const auto kept = KeptColumns<kColumns>(args.dropout, t, args.columns, c);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      value[j] = (value[j] * args.scale + offset[j]) * kept.Factor(j, factor);
    }
    StoreFloats(out + c, value);
  }
}

// The sort key of a token: first its row of the table, then its place in the batch.
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

// Tokens per stretch, and the number of them that are loaded at once.
inline constexpr int kSumRun = 16;
inline constexpr int kSumBatch = 4;
inline constexpr int kSumThreads = 128;

struct EmbeddingSumArgs {
  Rows d_out, d_table;
  const TokenKey* order;  // [tokens]
  // Partial sums of a stretch whose row began in an earlier stretch (head) or ends in a later one
  // (tail), each [stretches, columns].
  float* heads;
  float* tails;
  float scale;
  int32_t zero_row;  // gets no gradient
  DropoutDraw dropout;
  int64_t tokens, columns;
  int slabs;  // number of blocks that share a stretch, each with kSumThreads * kColumns columns
};

// Marks the tokens of a stretch that are the first or the last of their row.
struct StretchEdges {
  int64_t begin;
  int count;
  uint32_t firsts = 0, lasts = 0;  // bit i belongs to token begin + i

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

  // True if the row of token i begins and ends within the stretch.
  __device__ __forceinline__ bool IsWhole(int i) const {
    return (firsts & ((2u << i) - 1u)) != 0 && lasts >> i != 0;
  }
  // True if the last token's row begins in this stretch and continues in the next.
  __device__ __forceinline__ bool HasTail() const {
    return firsts != 0 && lasts >> (kSumRun - 1) == 0 && count == kSumRun;
  }
};

/// d_table[row] += scale * sum over its tokens of dropout'(d_out[token]), in token order.
/// Geometry: blocks of up to 128 threads, one per (stretch of 16 sorted tokens) and (slab of
///   columns). A thread adds kColumns columns along the stretch. It loads 4 tokens at a time,
///   together with the table rows they are added to.
/// Traffic: sizeof(T) * tokens * columns + 8 * (rows with a gradient) * columns, plus 4 * columns
///   for each of at most two open sums per stretch, which the join reads again.
/// Deterministic. A row within one stretch is added in token order, as on the CPU.
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
      const auto kept = KeptColumns<kColumns>(args.dropout, TokenOfKey(key[k]), args.columns, c);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float start = !first ? sum[j] : whole ? old[k][j] : 0.0f;
        // An explicit fused multiply-add, so that every kColumns rounds the same.
        sum[j] = __fmaf_rn(d[k][j], kept.Factor(j, factor), start);
      }
      const bool last = (edges.lasts >> i & 1u) != 0;
      if (whole && last && RowOfKey(key[k]) != args.zero_row) {
        StoreFloats(RowAt<float>(args.d_table, RowOfKey(key[k])) + c, sum);
      } else if (!whole && (last || i + 1 == edges.count)) {
        // An open sum. If its row began in an earlier stretch it is the head, whether it ends here
        // or not.
        const bool began_here = (edges.firsts & ((2u << i) - 1u)) != 0;
        float* const open = began_here ? args.tails : args.heads;
        StoreFloats(open + stretch * args.columns + c, sum);
      }
    }
  }
}

// Number of stretches whose heads are loaded at once.
inline constexpr int kJoinBatch = 8;

/// d_table[row] += the tail of the stretch where the row begins + the heads of the following
/// stretches.
/// Geometry: as EmbeddingSumKernelGpu; a block whose stretch has no tail ends at once.
/// Traffic: 4 * columns per open sum, 8 * columns per row that has one.
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
  // The next stretch begins with this row, as HasTail() says.
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

/// table[p, i] = sin(angle), table[p, hidden / 2 + i] = cos(angle), with angle = p / 10000^(2 i /
/// hidden). A thread per angle, computed in double as on the CPU; runs once in a program.
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
