// rotary_cpu.cc - turns heads in vectors of neighbouring angles; a head's table stays in L1.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/rotary_kernel.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void RotaryKernel(const RotaryArgs& args) {
  const int64_t half = args.head_dim / 2;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float* const cosines = args.table + args.position_ids[r] * args.head_dim;
    const float* const sines = cosines + half;
    T* const row = Row<T>(args.x, r);
    for (T* head = row; head < row + args.columns; head += args.head_dim) {
      ForLanes(0, half, [&](int64_t k, auto lanes) {
        const Vec cosine = Load(cosines + k, lanes);
        const Vec sine = Load(sines + k, lanes) * args.direction;
        const Vec a = Load(head + k, lanes);
        const Vec b = Load(head + half + k, lanes);
        Store(head + k, a * cosine - b * sine, lanes);
        Store(head + half + k, b * cosine + a * sine, lanes);
      });
    }
  }
}

template void RotaryKernel<float>(const RotaryArgs&);
template void RotaryKernel<BFloat16>(const RotaryArgs&);

}  // namespace dtrain::DT_CPU_ISA
