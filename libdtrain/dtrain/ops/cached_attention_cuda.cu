// cached_attention_cuda.cu - one step of incremental decoding, with one block per row and head.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/attention_kernel.h"
#include "dtrain/ops/internal/row_packs.cuh"

namespace dtrain {
namespace {

constexpr int kMaxWarps = 4;
constexpr int kBlocks = 3;  // minimum number of resident blocks per multiprocessor
constexpr int kMaxHeadDim = 256;
// Number of slots whose keys and values a group of lanes loads at once; fewer if each element takes
// a whole register.
template <int kPack>
inline constexpr int kSlotsAtOnce = kPack > 1 ? 4 : 2;

struct CachedGpuArgs {
  CachedAttentionArgs op;
  float scale_log2;  // scale of the scores times log2(e): probabilities are computed as powers of
                     // two
  int lanes;         // lanes that share one slot, a power of two
};

// A block's shared memory: each warp's partial result of one row.
struct WarpParts {
  float out[kMaxWarps][kMaxHeadDim];
  float max[kMaxWarps];
  float sum[kMaxWarps];
};

// Tells which elements of the head and which slots of the row this lane works on. `lanes` lanes
// share a slot; pack p of lane l starts at element (p * lanes + l) * kPack.
template <typename T, int kPack, int kPacks>
struct Share {
  int lanes, lane, group, groups, warp, warps, head_dim;

  __device__ __forceinline__ explicit Share(const CachedGpuArgs& args)
      : lanes(args.lanes),
        lane(static_cast<int>(threadIdx.x) & (args.lanes - 1)),
        group(static_cast<int>(threadIdx.x) % kWarpSize / args.lanes),
        groups(kWarpSize / args.lanes),
        warp(static_cast<int>(threadIdx.x) / kWarpSize),
        warps(static_cast<int>(blockDim.x) / kWarpSize),
        head_dim(args.op.head_dim) {}

  __device__ __forceinline__ int ColumnOf(int element) const {
    return (element / kPack * lanes + lane) * kPack + element % kPack;
  }

  // Kept in the stored type until used, which takes half the registers if T has 16 bits.
  using Elements = Packed<T, kPack>[kPacks];
  __device__ __forceinline__ void Load(const T* head, Elements& elements) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int c = ColumnOf(p * kPack);
      elements[p] = c < head_dim ? LoadPacked<kPack>(head + c) : Packed<T, kPack>{};
    }
  }
};

// A lane's partial result: the softmax of the slots it has seen, and its elements of their weighted
// values.
template <int kElements>
struct PartialRow {
  float max = -INFINITY;
  float sum = 0.0f;
  float out[kElements] = {};

  // Rescales the weights to new_max, or to 0 if no score was above -infinity. Returns the new
  // shift.
  __device__ __forceinline__ float Rescale(float new_max) {
    const float shift = new_max > -INFINITY ? new_max : 0.0f;
    const float factor = exp2f(max - shift);
    sum *= factor;
#pragma unroll
    for (int e = 0; e < kElements; ++e) out[e] *= factor;
    max = new_max;
    return shift;
  }

  // Adds the partial results of the warp's other groups. All lanes of an element get the sum.
  __device__ __forceinline__ void JoinGroups(int lanes) {
#pragma unroll 1
    for (int mask = lanes; mask < kWarpSize; mask *= 2) {
      Rescale(fmaxf(max, __shfl_xor_sync(kFullWarp, max, mask)));
      sum += __shfl_xor_sync(kFullWarp, sum, mask);
#pragma unroll
      for (int e = 0; e < kElements; ++e) out[e] += __shfl_xor_sync(kFullWarp, out[e], mask);
    }
  }
};

// Applies the online softmax to this warp's slots.
template <typename T, int kPack, int kPacks>
__device__ __forceinline__ void AttendSlots(const CachedGpuArgs& args, int64_t r, int64_t column,
                                            const Share<T, kPack, kPacks>& share,
                                            PartialRow<kPack * kPacks>& row) {
  constexpr int kElements = kPack * kPacks;
  constexpr int kSlots = kSlotsAtOnce<kPack>;
  const CachedAttentionArgs& op = args.op;
  const T* const keys = static_cast<const T*>(op.keys) + column;
  const T* const values = static_cast<const T*>(op.values) + column;
  const int32_t* const slots = op.slots + r * op.slots_stride;
  const int length = static_cast<int>(op.length);
  using Elements = typename Share<T, kPack, kPacks>::Elements;
  Elements q;
  share.Load(static_cast<const T*>(op.q) + r * op.q_stride + column, q);
  const int step = share.groups * kSlots;
#pragma unroll 1
  for (int first = share.warp * step; first < length; first += share.warps * step) {
    Elements value[kSlots];
    float score[kSlots];
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      const int i = first + k * share.groups + share.group;
      // Groups past the end load the last slot again and ignore its score.
      const int64_t slot = slots[i < length ? i : length - 1];
      Elements key;
      share.Load(keys + slot * op.keys_stride, key);
      share.Load(values + slot * op.values_stride, value[k]);
      score[k] = 0.0f;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        score[k] += q[e / kPack][e % kPack] * key[e / kPack][e % kPack];
      }
    }
    float new_max = row.max;
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
#pragma unroll 1
      for (int mask = share.lanes / 2; mask > 0; mask /= 2) {
        score[k] += __shfl_xor_sync(kFullWarp, score[k], mask);
      }
      const bool real = first + k * share.groups + share.group < length;
      score[k] = real ? score[k] * args.scale_log2 : -INFINITY;
      new_max = fmaxf(new_max, score[k]);
    }
    const float shift = row.Rescale(new_max);
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      const float p = exp2f(score[k] - shift);
      row.sum += p;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        row.out[e] += p * value[k][e / kPack][e % kPack];
      }
    }
  }
}

/// out[r, h] = sum_i softmax_i(scale q[r, h] . keys[slots[r, i], h]) values[slots[r, i], h]
/// Geometry: a block of 1 or 4 warps per (row, head). A warp is divided into groups of `lanes`
///   lanes; each lane holds kPacks packs of a head. A group puts 4 slots at a time through an
///   online softmax. Groups and warps combine their parts at the end.
/// Traffic: 2 * sizeof(T) * length * head_dim per (row, head). Beams share slots, so much of it
///   comes from the L2 cache. Short rows are bound by latency: the slot first, then its key and
///   value together.
/// Deterministic. kPack == 1 handles odd head sizes and rows that are not aligned.
template <typename T, int kPack, int kPacks>
__global__ __launch_bounds__(kMaxWarps* kWarpSize,
                             kBlocks) void CachedAttentionKernelGpu(CachedGpuArgs args) {
  WarpParts& parts = SharedStorage<WarpParts>();
  const CachedAttentionArgs& op = args.op;
  const int64_t r = static_cast<int64_t>(blockIdx.x) / op.num_heads;
  const int64_t column = static_cast<int64_t>(blockIdx.x) % op.num_heads * op.head_dim;
  const Share<T, kPack, kPacks> share(args);
  PartialRow<kPack * kPacks> row;
  AttendSlots(args, r, column, share, row);
  row.JoinGroups(args.lanes);
  if (share.group == 0) {
#pragma unroll
    for (int e = 0; e < kPack * kPacks; ++e) {
      if (share.ColumnOf(e) < op.head_dim) parts.out[share.warp][share.ColumnOf(e)] = row.out[e];
    }
  }
  if (threadIdx.x % kWarpSize == 0) {
    parts.max[share.warp] = row.max;
    parts.sum[share.warp] = row.sum;
  }
  __syncthreads();
  float max = parts.max[0];
  for (int w = 1; w < share.warps; ++w) max = fmaxf(max, parts.max[w]);
  const float shift = max > -INFINITY ? max : 0.0f;
  float sum = 0.0f;
  for (int w = 0; w < share.warps; ++w) sum += parts.sum[w] * exp2f(parts.max[w] - shift);
  T* const out = static_cast<T*>(op.out) + r * op.out_stride + column;
  for (int c = static_cast<int>(threadIdx.x); c < op.head_dim; c += static_cast<int>(blockDim.x)) {
    float total = 0.0f;
    for (int w = 0; w < share.warps; ++w) {
      total += parts.out[w][c] * exp2f(parts.max[w] - shift);
    }
    out[c] = FromFloat<T>(total / sum);
  }
}

}  // namespace

template <typename T>
void CachedAttentionKernelCuda(const CachedAttentionArgs& op, Stream& stream) {
  constexpr int kPack = kPackedSize<T>;
  DT_CHECK_LE(op.head_dim, kMaxHeadDim)
      << "cached attention on a GPU supports a head_dim of at most 256";
  DT_CHECK_LT(op.length, int64_t{1} << 30)
      << "cached attention supports fewer than 2^30 slots per row";
  // Packs require rows of q, keys and values aligned to 16 bytes, and heads of whole packs.
  const bool packed = op.head_dim % kPack == 0 && op.head_dim <= kWarpSize * kPack &&
                      RowsAligned<T>({const_cast<void*>(op.q), op.q_stride}) &&
                      RowsAligned<T>({const_cast<void*>(op.keys), op.keys_stride}) &&
                      RowsAligned<T>({const_cast<void*>(op.values), op.values_stride});
  const int packs = packed ? op.head_dim / kPack : op.head_dim;
  const CachedGpuArgs args = {
      .op = op,
      .scale_log2 = op.scale * 1.4426950408889634f,
      .lanes = static_cast<int>(std::min(std::bit_ceil(static_cast<unsigned>(packs)), 32u))};
  // Use more warps only if each has slots of its own.
  const int64_t slots_per_warp = kWarpSize / args.lanes * kSlotsAtOnce<kPack>;
  const int threads = op.length > slots_per_warp ? kMaxWarps * kWarpSize : kWarpSize;
  Launch(packed ? CachedAttentionKernelGpu<T, kPack, 1>
                : CachedAttentionKernelGpu<T, 1, kMaxHeadDim / kWarpSize>,
         {.blocks = {(op.last_row - op.first_row) * op.num_heads}, .threads = threads}, args,
         stream);
}

template void CachedAttentionKernelCuda<float>(const CachedAttentionArgs&, Stream&);
template void CachedAttentionKernelCuda<BFloat16>(const CachedAttentionArgs&, Stream&);
template void CachedAttentionKernelCuda<Float16>(const CachedAttentionArgs&, Stream&);

}  // namespace dtrain
