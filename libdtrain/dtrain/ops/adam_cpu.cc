// adam_cpu.cc - updates each element completely while its four values are in registers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/adam_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void AdamKernel(const AdamArgs& args) {
  const AdamOptions& o = args.options;
  const AdamStep& now = *args.step;
  const float scale = now.gradient_scale;
  const float m_correction = 1.0f / now.bias_correction1;
  const float root_v_correction = 1.0f / __builtin_sqrtf(now.bias_correction2);
  T* const copy = static_cast<T*>(args.copy);
  ForLanes(args.begin, args.end, [&](int64_t i, auto lanes) {
    Vec w = Load(args.weights + i, lanes);
    const Vec g = Load(args.gradients + i, lanes) * scale + w * o.l2;
    const Vec m = Load(args.m + i, lanes) * o.beta1 + g * (1.0f - o.beta1);
    const Vec v = Load(args.v + i, lanes) * o.beta2 + g * g * (1.0f - o.beta2);
    const Vec step = m * m_correction / (Sqrt(v) * root_v_correction + o.epsilon);
    w -= (step + w * o.weight_decay) * now.learning_rate;
    Store(args.m + i, m, lanes);
    Store(args.v + i, v, lanes);
    Store(args.weights + i, w, lanes);
    if (copy != nullptr) Store(copy + i, w, lanes);
  });
}

template void AdamKernel<float>(const AdamArgs&);
template void AdamKernel<BFloat16>(const AdamArgs&);

}  // namespace dtrain::DT_CPU_ISA
