// attention_plain.cuh - attention for any type and head sizes up to 256, without tensor cores.
// SPDX-License-Identifier: Apache-2.0
//
// Equations: attention_kernel.cuh.
// Geometry: blocks of 4 warps. A warp owns a few rows and streams 32 rows at a time: lane i
//   computes the scores of streamed row i, and columns i, i + 32, ... of the sums.
// Shared memory: own rows and one streamed tile as float. Rows are an odd number of words apart, so
//   that 32 lanes reading 32 rows use 32 banks. 51 KiB at head_dim 256.
// Traffic: own rows once; the streamed side once per block of own rows (forward), from the cache.
// Minimum time (model): the fused multiply-adds of 2 (forward) or 7 (backward) products, with one
//   load from shared memory per 1 to 4 of them. These kernels are for float32 and unusual head
//   sizes; those of attention_flash_*.cuh, with tensor cores, are faster.
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_PLAIN_CUH_
#define DTRAIN_OPS_INTERNAL_ATTENTION_PLAIN_CUH_

#include "dtrain/ops/internal/attention_kernel.cuh"

namespace dtrain {

inline constexpr int kPlainWarps = 4;
inline constexpr int kPlainThreads = kPlainWarps * kWarpSize;
inline constexpr int kPlainForwardRows = 4;   // rows per warp
inline constexpr int kPlainBackwardRows = 2;  // rows per warp; fewer, because there are two own
                                              // sides
inline constexpr int kPlainColumns = 8;       // columns per lane
inline constexpr int kPlainMaxDim = kPlainColumns * kWarpSize;
inline constexpr int kPlainWeightsRow = kWarpSize + 1;

constexpr int PlainRow(int head_dim) { return head_dim | 1; }

constexpr size_t PlainForwardSharedBytes(int head_dim) {
  constexpr int kRows = kPlainWarps * kPlainForwardRows;
  return sizeof(float) *
         static_cast<size_t>((kRows + kWarpSize) * PlainRow(head_dim) + kRows * kPlainWeightsRow);
}
constexpr size_t PlainBackwardSharedBytes(int head_dim) {
  constexpr int kRows = kPlainWarps * kPlainBackwardRows;
  return sizeof(float) * static_cast<size_t>((2 * kRows + kWarpSize) * PlainRow(head_dim) +
                                             2 * kRows * kPlainWeightsRow);
}

// Loads rows [0, kRows) of `from` as float; rows from `valid` on become zeros.
template <int kRows, typename T>
__device__ __forceinline__ void LoadFloatRows(const T* from, int64_t stride, int valid, int dim,
                                              float* to) {
  for (int r = WarpIndex(); r < kRows; r += kPlainWarps) {
    for (int c = LaneIndex(); c < dim; c += kWarpSize) {
      to[r * PlainRow(dim) + c] = r < valid ? ToFloat(from[r * stride + c]) : 0.0f;
    }
  }
}

// result[r] = own row r of the warp . streamed row of the lane
template <int kRows>
__device__ __forceinline__ void RowProducts(const float* own, const float* streamed, int dim,
                                            float (&result)[kRows]) {
  const float* const mine = own + WarpIndex() * kRows * PlainRow(dim);
  const float* const other = streamed + LaneIndex() * PlainRow(dim);
#pragma unroll
  for (int r = 0; r < kRows; ++r) result[r] = 0.0f;
  for (int c = 0; c < dim; ++c) {
    const float value = other[c];
#pragma unroll
    for (int r = 0; r < kRows; ++r) result[r] += mine[r * PlainRow(dim) + c] * value;
  }
}

// sums[r] += (weights of the warp's row r) . (streamed rows). weights: [warps * kRows, 32].
template <int kRows>
__device__ __forceinline__ void AddWeightedRows(const float* weights, const float* streamed,
                                                int dim, float (&sums)[kRows][kPlainColumns]) {
  const float* const mine = weights + WarpIndex() * kRows * kPlainWeightsRow;
  for (int j = 0; j < kWarpSize; ++j) {
    const float* const row = streamed + j * PlainRow(dim);
#pragma unroll
    for (int i = 0; i < kPlainColumns; ++i) {
      const int c = LaneIndex() + i * kWarpSize;
      if (c >= dim) continue;
      const float value = row[c];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r][i] += mine[r * kPlainWeightsRow + j] * value;
    }
  }
}

// Stores the warp's own rows r < valid, each times factor[r].
template <int kRows, typename T>
__device__ __forceinline__ void StoreFloatRows(const float (&sums)[kRows][kPlainColumns],
                                               const float (&factor)[kRows], int valid, int dim,
                                               T* to, int64_t stride) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kPlainColumns; ++i) {
      const int c = LaneIndex() + i * kWarpSize;
      if (r < valid && c < dim) to[r * stride + c] = FromFloat<T>(sums[r][i] * factor[r]);
    }
  }
}

// Bit r is set where dropout keeps the probability of (query + r, key) or (query, key + r).
template <int kRows>
__device__ __forceinline__ uint32_t KeptOfRows(const AttentionArgs& args, const AttentionPlace& at,
                                               int query, int key, bool rows_are_queries) {
  if (args.dropout_threshold == 0) return ~0u;
  uint32_t kept = 0;
#pragma unroll 1  // keeps a single copy of the random generator
  for (int r = 0; r < kRows; ++r) {
    const int upper_query = query / 8 % 2;
    KeptElements drawn =
        DrawScores(args, DropoutRow(args, at, query - 8 * upper_query), key, key % 8 / 2);
    drawn.MoveToFirst(2 * (upper_query + 2 * (key / 8 % 2)) + key % 2);
    kept |= (drawn.Mask(0) & 1u) << r;
    query += rows_are_queries ? 1 : 0;
    key += rows_are_queries ? 0 : 1;
  }
  return kept;
}

// ---- forward -----------------------------------------------------------------------------------

// The running softmax of a warp's rows. scores[r] of this lane's key become probabilities.
struct PlainSoftmax {
  static constexpr int kRows = kPlainForwardRows;
  float maximum[kRows], sum[kRows];
  float out[kRows][kPlainColumns];

  __device__ __forceinline__ void Start() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      maximum[r] = MinusInfinity();
      sum[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < kPlainColumns; ++i) out[r][i] = 0.0f;
    }
  }
  // Without a window, `largest` is finite: key 0 is in the first tile and every query sees it. With
  // one, the query may see no key of the first tile, and its infinity must not be subtracted.
  template <bool kWindow>
  __device__ __forceinline__ float Advance(int r, float score) {
    const float largest = MaxOp{}(maximum[r], WarpMax(score));
    const float shift = kWindow && largest == MinusInfinity() ? 0.0f : largest;
    const float shrink = expf(maximum[r] - shift);
    const float p = expf(score - shift);
    sum[r] = sum[r] * shrink + WarpSum(p);
    maximum[r] = largest;
#pragma unroll
    for (int i = 0; i < kPlainColumns; ++i) out[r][i] *= shrink;
    return p;
  }
};

template <typename T, bool kWindow>
__device__ __forceinline__ void PlainForwardTile(const AttentionArgs& args,
                                                 const AttentionPlace& at) {
  constexpr int kRows = kPlainForwardRows;
  constexpr int kOwn = kPlainWarps * kRows;
  const int dim = args.head_dim;
  float* const q = reinterpret_cast<float*>(DynamicShared());
  float* const streamed = q + kOwn * PlainRow(dim);
  float* const weights = streamed + kWarpSize * PlainRow(dim);
  const int first = at.first_row + WarpIndex() * kRows;
  LoadFloatRows<kOwn>(
      HeadRow<T>(args.q, args.q_stride, at.first_query + at.first_row, args, at.head),
      args.q_stride, at.queries - at.first_row, dim, q);
  PlainSoftmax softmax;
  softmax.Start();
  const int keys = EndKey<kWindow>(args, at, at.first_row + kOwn - 1);
  for (int tile = FirstKey<kWindow>(args, at.first_row); tile < keys; tile += kWarpSize) {
    const int key = tile + LaneIndex();
    __syncthreads();  // other threads may still read the previous tile's values
    LoadFloatRows<kWarpSize>(HeadRow<T>(args.k, args.k_stride, at.first_key + tile, args, at.head),
                             args.k_stride, at.keys - tile, dim, streamed);
    __syncthreads();
    float scores[kRows];
    RowProducts(q, streamed, dim, scores);
    const uint32_t kept = KeptOfRows<kRows>(args, at, first, key, true);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool seen = key < at.keys && IsSeen<kWindow>(args, first + r, key);
      const float p = softmax.Advance<kWindow>(r, seen ? scores[r] * args.scale : MinusInfinity());
      weights[(WarpIndex() * kRows + r) * kPlainWeightsRow + LaneIndex()] =
          (kept >> r & 1u) != 0 ? p : 0.0f;
    }
    __syncthreads();
    LoadFloatRows<kWarpSize>(HeadRow<T>(args.v, args.v_stride, at.first_key + tile, args, at.head),
                             args.v_stride, at.keys - tile, dim, streamed);
    __syncthreads();
    AddWeightedRows(weights, streamed, dim, softmax.out);
  }
  float factor[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    factor[r] = (args.dropout_threshold != 0 ? args.dropout_scale : 1.0f) / softmax.sum[r];
    if (LaneIndex() == 0 && first + r < at.queries) {
      args.log_sum_exp[StatisticsIndex(args, at, first + r)] =
          softmax.maximum[r] + logf(softmax.sum[r]);
    }
  }
  StoreFloatRows(softmax.out, factor, at.queries - first, dim,
                 HeadRow<T>(args.out, args.out_stride, at.first_query + first, args, at.head),
                 args.out_stride);
}

template <typename T, bool kWindow>
__global__ __launch_bounds__(kPlainThreads,
                             4) void PlainAttentionForwardKernel(AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  const AttentionPlace at =
      PlaceOfBlock(args, args.max_queries, kPlainWarps * kPlainForwardRows, args.causal);
  if (at.first_row < at.queries) PlainForwardTile<T, kWindow>(args, at);
}

// ---- backward ----------------------------------------------------------------------------------

// log_sum_exp and delta of a query. Past the last query they make the probabilities 0.
struct QueryStatistics {
  float log_sum_exp, delta;
};
__device__ __forceinline__ QueryStatistics StatisticsOf(const AttentionArgs& args,
                                                        const AttentionPlace& at, int query) {
  if (query >= at.queries) return {-MinusInfinity(), 0.0f};
  const int64_t index = StatisticsIndex(args, at, query);
  return {args.log_sum_exp[index], args.delta[index]};
}

// Computes delta of the warp's own queries and stores it for the later kernel over keys.
template <typename T>
__device__ __forceinline__ void PlainDelta(const AttentionArgs& args, const AttentionPlace& at,
                                           int first,
                                           QueryStatistics (&statistics)[kPlainBackwardRows]) {
#pragma unroll
  for (int r = 0; r < kPlainBackwardRows; ++r) {
    const int query = min(first + r, at.queries - 1);
    const T* const d_out =
        HeadRow<T>(args.d_out, args.d_out_stride, at.first_query + query, args, at.head);
    const T* const out = HeadRow<T>(static_cast<const void*>(args.out), args.out_stride,
                                    at.first_query + query, args, at.head);
    float sum = 0.0f;
    for (int c = LaneIndex(); c < args.head_dim; c += kWarpSize) {
      sum += ToFloat(d_out[c]) * ToFloat(out[c]);
    }
    const int64_t index = StatisticsIndex(args, at, query);
    statistics[r] = {args.log_sum_exp[index], WarpSum(sum)};
    if (LaneIndex() == 0 && first + r < at.queries) args.delta[index] = statistics[r].delta;
  }
}

// The probabilities after dropout, and dS without the scale, for the warp's rows and one streamed
// row.
template <bool kOwnKeys>
struct PlainGradientScores {
  static constexpr int kRows = kPlainBackwardRows;
  float p[kRows], ds[kRows];

  // On entry p holds scores and ds holds dP. `own` and `other` are the positions of the warp's
  // first row and of the lane's row.
  template <bool kWindow>
  __device__ __forceinline__ void Finish(const AttentionArgs& args, const AttentionPlace& at,
                                         int own, int other,
                                         const QueryStatistics (&statistics)[kRows]) {
    const uint32_t kept_bits =
        KeptOfRows<kRows>(args, at, kOwnKeys ? other : own, kOwnKeys ? own : other, !kOwnKeys);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int query = kOwnKeys ? other : own + r;
      const int key = kOwnKeys ? own + r : other;
      const bool seen = query < at.queries && key < at.keys && IsSeen<kWindow>(args, query, key);
      const QueryStatistics& row = statistics[kOwnKeys ? 0 : r];
      const float probability = seen ? expf(p[r] * args.scale - row.log_sum_exp) : 0.0f;
      const bool kept = (kept_bits >> r & 1u) != 0;
      const float scale = args.dropout_threshold != 0 ? args.dropout_scale : 1.0f;
      ds[r] = probability * ((kept ? ds[r] * scale : 0.0f) - row.delta);
      p[r] = kept ? probability : 0.0f;
    }
  }
};

// The parts of the block's shared memory.
struct PlainBackwardMemory {
  float *own_x, *own_y, *streamed, *p_weights, *ds_weights;

  explicit __device__ __forceinline__ PlainBackwardMemory(int dim) {
    constexpr int kOwn = kPlainWarps * kPlainBackwardRows;
    own_x = reinterpret_cast<float*>(DynamicShared());
    own_y = own_x + kOwn * PlainRow(dim);
    streamed = own_y + kOwn * PlainRow(dim);
    p_weights = streamed + kWarpSize * PlainRow(dim);
    ds_weights = p_weights + kOwn * kPlainWeightsRow;
  }
};

// The warp's own rows while the other side is streamed.
template <typename T, bool kOwnKeys, bool kWindow>
struct PlainGradientRows {
  static constexpr int kRows = kPlainBackwardRows;

  int first;
  QueryStatistics statistics[kRows];
  float x_sums[kRows][kPlainColumns] = {};
  float y_sums[kRows][kPlainColumns] = {};

  // Adds the streamed rows [tile, tile + 32).
  __device__ __forceinline__ void Add(const AttentionArgs& args, const AttentionPlace& at,
                                      const PlainBackwardMemory& memory,
                                      const AttentionSide<T>& other, int tile) {
    const int dim = args.head_dim;
    const T* const x = other.x + tile * other.x_stride;
    const T* const y = other.y + tile * other.y_stride;
    PlainGradientScores<kOwnKeys> scores;
    __syncthreads();  // other threads may still read the previous tile
    LoadFloatRows<kWarpSize>(x, other.x_stride, other.rows - tile, dim, memory.streamed);
    __syncthreads();
    RowProducts(memory.own_x, memory.streamed, dim, scores.p);
    __syncthreads();
    LoadFloatRows<kWarpSize>(y, other.y_stride, other.rows - tile, dim, memory.streamed);
    __syncthreads();
    RowProducts(memory.own_y, memory.streamed, dim, scores.ds);
    if constexpr (kOwnKeys) statistics[0] = StatisticsOf(args, at, tile + LaneIndex());
    scores.template Finish<kWindow>(args, at, first, tile + LaneIndex(), statistics);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int index = (WarpIndex() * kRows + r) * kPlainWeightsRow + LaneIndex();
      memory.p_weights[index] = scores.p[r];
      memory.ds_weights[index] = scores.ds[r];
    }
    __syncwarp();
    if constexpr (kOwnKeys) AddWeightedRows(memory.p_weights, memory.streamed, dim, y_sums);
    __syncthreads();
    LoadFloatRows<kWarpSize>(x, other.x_stride, other.rows - tile, dim, memory.streamed);
    __syncthreads();
    AddWeightedRows(memory.ds_weights, memory.streamed, dim, x_sums);
  }

  __device__ __forceinline__ void Store(const AttentionArgs& args, const AttentionPlace& at) const {
    const float keep_scale = args.dropout_threshold != 0 ? args.dropout_scale : 1.0f;
    float x_factor[kRows], y_factor[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x_factor[r] = args.scale;
      y_factor[r] = keep_scale;
    }
    if constexpr (kOwnKeys) {
      const int64_t token = at.first_key + first;
      StoreFloatRows(x_sums, x_factor, at.keys - first, args.head_dim,
                     HeadRow<T>(args.dk, args.dk_stride, token, args, at.head), args.dk_stride);
      StoreFloatRows(y_sums, y_factor, at.keys - first, args.head_dim,
                     HeadRow<T>(args.dv, args.dv_stride, token, args, at.head), args.dv_stride);
    } else {
      StoreFloatRows(x_sums, x_factor, at.queries - first, args.head_dim,
                     HeadRow<T>(args.dq, args.dq_stride, at.first_query + first, args, at.head),
                     args.dq_stride);
    }
  }
};

template <typename T, bool kOwnKeys, bool kWindow>
__device__ __forceinline__ void PlainBackwardTile(const AttentionArgs& args,
                                                  const AttentionPlace& at) {
  constexpr int kOwn = kPlainWarps * kPlainBackwardRows;
  const int dim = args.head_dim;
  const PlainBackwardMemory memory(dim);
  const AttentionSide<T> own = AttentionSideOf<T, !kOwnKeys>(args, at);
  const AttentionSide<T> other = AttentionSideOf<T, kOwnKeys>(args, at);
  const int valid = own.rows - at.first_row;
  LoadFloatRows<kOwn>(own.x + at.first_row * own.x_stride, own.x_stride, valid, dim, memory.own_x);
  LoadFloatRows<kOwn>(own.y + at.first_row * own.y_stride, own.y_stride, valid, dim, memory.own_y);
  PlainGradientRows<T, kOwnKeys, kWindow> rows;
  rows.first = at.first_row + WarpIndex() * kPlainBackwardRows;
  if constexpr (!kOwnKeys) PlainDelta<T>(args, at, rows.first, rows.statistics);
  const int last = at.first_row + kOwn - 1;
  const int seen =
      kOwnKeys ? FirstQuery<kWindow>(args, at.first_row) : FirstKey<kWindow>(args, at.first_row);
  const int begin = seen / kWarpSize * kWarpSize;
  const int end = kOwnKeys ? EndQuery<kWindow>(args, at, last) : EndKey<kWindow>(args, at, last);
  for (int tile = begin; tile < end; tile += kWarpSize) rows.Add(args, at, memory, other, tile);
  rows.Store(args, at);
}

// Launched over queries first (kOwnKeys false), which writes delta for the launch over keys.
template <typename T, bool kOwnKeys, bool kWindow>
__global__ __launch_bounds__(kPlainThreads,
                             4) void PlainAttentionBackwardKernel(AttentionArgs args) {
  TakeStep(args.dropout_key, args.dropout_step);
  const AttentionPlace at =
      PlaceOfBlock(args, kOwnKeys ? args.max_keys : args.max_queries,
                   kPlainWarps * kPlainBackwardRows, args.causal && !kOwnKeys);
  if (at.first_row < (kOwnKeys ? at.keys : at.queries)) {
    PlainBackwardTile<T, kOwnKeys, kWindow>(args, at);
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_PLAIN_CUH_
