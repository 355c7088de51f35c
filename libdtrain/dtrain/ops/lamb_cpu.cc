// lamb_cpu.cc - one pass over a chunk for moments and norms, another for weights.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/lamb_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {

// Traffic: 28 bytes per element. u overwrites the gradient, which is not needed any more.
template <typename T>
void LambMomentsKernel(const LambArgs& args) {
  const LambOptions& o = args.options;
  const LambChunk& chunk = args.chunks[args.chunk];
  const AdamStep& now = *args.step;
  const float scale = now.gradient_scale;
  float* const all_m = args.m + chunk.moments - chunk.begin;
  float* const all_v = args.v + chunk.moments - chunk.begin;
  const float decay = args.decays[chunk.segment];
  const float m_correction = 1.0f / now.bias_correction1;
  const float root_v_correction = 1.0f / __builtin_sqrtf(now.bias_correction2);
  DoubleVec weight_squares{};
  DoubleVec update_squares{};
  ForLanes(chunk.begin, chunk.end, [&](int64_t i, auto lanes) {
    const Vec w = Load(args.weights + i, lanes);
    const Vec g = Load(args.gradients + i, lanes) * scale;
    const Vec m = Load(all_m + i, lanes) * o.beta1 + g * (1.0f - o.beta1);
    const Vec v = Load(all_v + i, lanes) * o.beta2 + g * g * (1.0f - o.beta2);
    // Lanes without an element are zero, and their u is zero too because epsilon > 0.
    const Vec u = m * m_correction / (Sqrt(v) * root_v_correction + o.epsilon) + w * decay;
    Store(all_m + i, m, lanes);
    Store(all_v + i, v, lanes);
    Store(args.gradients + i, u, lanes);
    const DoubleVec wide_w = __builtin_convertvector(w, DoubleVec);
    const DoubleVec wide_u = __builtin_convertvector(u, DoubleVec);
    weight_squares += wide_w * wide_w;
    update_squares += wide_u * wide_u;
  });
  args.squares[2 * args.chunk] = HorizontalSum(weight_squares);
  args.squares[2 * args.chunk + 1] = HorizontalSum(update_squares);
}

// Traffic: 12 bytes per element, plus sizeof(T) for the copy.
template <typename T>
void LambWeightsKernel(const LambArgs& args) {
  const LambChunk& chunk = args.chunks[args.chunk];
  const float rate = args.step->learning_rate * args.ratios[chunk.segment];
  T* const copy = static_cast<T*>(args.copy);
  ForLanes(chunk.begin, chunk.end, [&](int64_t i, auto lanes) {
    const Vec w = Load(args.weights + i, lanes) - Load(args.gradients + i, lanes) * rate;
    Store(args.weights + i, w, lanes);
    if (copy != nullptr) Store(copy + i, w, lanes);
  });
}

template void LambMomentsKernel<float>(const LambArgs&);
template void LambWeightsKernel<float>(const LambArgs&);
template void LambWeightsKernel<BFloat16>(const LambArgs&);

}  // namespace dtrain::DT_CPU_ISA
