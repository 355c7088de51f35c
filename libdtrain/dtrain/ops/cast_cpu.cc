// cast_cpu.cc - elementwise copies and sums over consecutive elements.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/cast_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {
namespace {

template <typename T, typename U>
void Convert(const T* x, U* y, int64_t n) {
  ForLanes(0, n, [&](int64_t i, auto lanes) { Store(y + i, Load(x + i, lanes), lanes); });
}

}  // namespace

template <typename T>
void CastKernel(const CastArgs& args) {
  const T* const x = static_cast<const T*>(args.x);
  if (args.to_bfloat16) {
    Convert(x, static_cast<BFloat16*>(args.y), args.n);
  } else {
    Convert(x, static_cast<float*>(args.y), args.n);
  }
}

template <typename T>
void BlendKernel(const BlendArgs& args) {
  const T* const x = static_cast<const T*>(args.x);
  T* const y = static_cast<T*>(args.y);
  ForLanes(0, args.n, [&](int64_t i, auto lanes) {
    Store(y + i, Load(y + i, lanes) * args.y_factor + Load(x + i, lanes) * args.x_factor, lanes);
  });
}

template <typename T>
void ScaleKernel(const ScaleArgs& args) {
  T* const x = static_cast<T*>(args.x);
  ForLanes(0, args.n,
           [&](int64_t i, auto lanes) { Store(x + i, Load(x + i, lanes) * args.factor, lanes); });
}

template <typename T>
void ScatterAddRowsKernel(const ScatterAddRowsArgs& args) {
  for (int64_t i = 0; i < args.n; ++i) {
    const T* const x = Row<T>(args.x, i);
    T* const out = Row<T>(args.out, args.rows[i]);
    ForLanes(args.column_begin, args.column_end, [&](int64_t c, auto lanes) {
      Store(out + c, Load(out + c, lanes) + Load(x + c, lanes), lanes);
    });
  }
}

template void CastKernel<float>(const CastArgs&);
template void CastKernel<BFloat16>(const CastArgs&);
template void BlendKernel<float>(const BlendArgs&);
template void BlendKernel<BFloat16>(const BlendArgs&);
template void ScaleKernel<float>(const ScaleArgs&);
template void ScatterAddRowsKernel<float>(const ScatterAddRowsArgs&);
template void ScatterAddRowsKernel<BFloat16>(const ScatterAddRowsArgs&);

}  // namespace dtrain::DT_CPU_ISA
