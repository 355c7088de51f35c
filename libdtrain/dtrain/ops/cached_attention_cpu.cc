// cached_attention_cpu.cc - attention of one query per row over cached keys, one head at a time.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/attention_kernel.h"
#include "dtrain/ops/internal/small_matrix.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// Number of vectors of values that are summed in parallel. The additions into a single vector would
// wait for each other.
constexpr int kWide = 4;

// kVectors vectors of sum_i p_i V_i; p is in the scratch memory.
template <int kVectors, typename T>
void WeighValues(const CachedAttentionArgs& args, const int32_t* slots, const T* values,
                 float inverse, T* out) {
  Vec sums[kVectors] = {};
  for (int64_t i = 0; i < args.length; ++i) {
    const T* const value = values + slots[i] * args.values_stride;
    const float p = args.scratch[i];
    for (int v = 0; v < kVectors; ++v) sums[v] += Load(value + v * kLanes) * p;
  }
  for (int v = 0; v < kVectors; ++v) Store(out + v * kLanes, sums[v] * inverse);
}

// out = softmax(scale q K^T) V for one row and head.
template <typename T>
void CachedHead(const CachedAttentionArgs& args, int64_t row, int64_t column) {
  const int64_t dim = args.head_dim;
  const T* const q = static_cast<const T*>(args.q) + row * args.q_stride + column;
  const T* const keys = static_cast<const T*>(args.keys) + column;
  const T* const values = static_cast<const T*>(args.values) + column;
  const int32_t* const slots = args.slots + row * args.slots_stride;
  float* const scores = args.scratch;
  float maximum = kMinusInfinity;
  for (int64_t i = 0; i < args.length; ++i) {
    scores[i] = Dot(q, keys + slots[i] * args.keys_stride, dim) * args.scale;
    maximum = scores[i] > maximum ? scores[i] : maximum;
  }
  Vec sums{};
  for (int64_t i = 0; i < args.length; i += kLanes) {
    const Vec p = Below(i, args.length, Exp(Load(scores + i) - maximum), 0.0f);
    Store(scores + i, p);
    sums += p;
  }
  const float inverse = 1.0f / HorizontalSum(sums);
  T* const out = static_cast<T*>(args.out) + row * args.out_stride + column;
  int64_t c = 0;
  for (; c + kWide * kLanes <= dim; c += kWide * kLanes) {
    WeighValues<kWide>(args, slots, values + c, inverse, out + c);
  }
  for (; c + kLanes <= dim; c += kLanes) {
    WeighValues<1>(args, slots, values + c, inverse, out + c);
  }
  if (c == dim) return;
  Vec sum{};
  for (int64_t i = 0; i < args.length; ++i) {
    sum += LoadPartial(values + slots[i] * args.values_stride + c, dim - c) * scores[i];
  }
  StorePartial(out + c, sum * inverse, dim - c);
}

}  // namespace

template <typename T>
void CachedAttentionKernel(const CachedAttentionArgs& args) {
  for (int64_t row = args.first_row; row < args.last_row; ++row) {
    for (int64_t head = 0; head < args.num_heads; ++head) {
      CachedHead<T>(args, row, head * args.head_dim);
    }
  }
}

template void CachedAttentionKernel<float>(const CachedAttentionArgs&);
template void CachedAttentionKernel<BFloat16>(const CachedAttentionArgs&);

}  // namespace dtrain::DT_CPU_ISA
