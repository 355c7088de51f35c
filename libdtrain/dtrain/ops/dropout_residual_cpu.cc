// dropout_residual_cpu.cc - one pass over the rows for forward, and one for backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/dropout_residual_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void DropoutResidualForwardKernel(const DropoutResidualForwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  const T* const bias = static_cast<const T*>(args.bias);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.x, r);
    const T* const residual = args.residual.data == nullptr ? nullptr : Row<T>(args.residual, r);
    T* const out = Row<T>(args.out, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec value = Load(x + c, lanes);
      if (bias != nullptr) value += Load(bias + c, lanes);
      if (args.dropout.on) value = dropout.Apply(value, offset);
      if (residual != nullptr) value += Load(residual + c, lanes);
      Store(out + c, value, lanes);
    });
  }
}

template <typename T>
void DropoutResidualBackwardKernel(const DropoutResidualBackwardArgs& args) {
  if (args.d_bias != nullptr) ClearFloats(args.d_bias, args.columns);
  DropoutStretch dropout(args.dropout);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const d_out = Row<T>(args.d_out, r);
    T* const dx = Row<T>(args.dx, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec d = Load(d_out + c, lanes);
      if (args.dropout.on) d = dropout.Apply(d, offset);
      Store(dx + c, d, lanes);
      if (args.d_bias != nullptr) Store(args.d_bias + c, Load(args.d_bias + c, lanes) + d, lanes);
    });
  }
}

template void DropoutResidualForwardKernel<float>(const DropoutResidualForwardArgs&);
template void DropoutResidualForwardKernel<BFloat16>(const DropoutResidualForwardArgs&);
template void DropoutResidualBackwardKernel<float>(const DropoutResidualBackwardArgs&);
template void DropoutResidualBackwardKernel<BFloat16>(const DropoutResidualBackwardArgs&);

}  // namespace dtrain::DT_CPU_ISA
