// gated_activation_cpu.cc - activation, gate and dropout in one pass over the rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/activation_lanes.h"
#include "dtrain/ops/internal/gated_activation_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {
namespace {

template <typename T, typename A>
void GatedForward(const GatedActivationForwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  const A activation;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const a = Row<T>(args.a, r);
    const T* const g = Row<T>(args.g, r);
    T* const y = Row<T>(args.y, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec value = activation.Value(Load(a + c, lanes)) * Load(g + c, lanes);
      if (args.dropout.on) value = dropout.Apply(value, offset);
      Store(y + c, value, lanes);
    });
  }
}

template <typename T, typename A>
void GatedBackward(const GatedActivationBackwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  const A activation;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const dy = Row<T>(args.dy, r);
    const T* const a = Row<T>(args.a, r);
    const T* const g = Row<T>(args.g, r);
    T* const da = Row<T>(args.da, r);
    T* const dg = Row<T>(args.dg, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      const Vec input = Load(a + c, lanes);
      const Vec gate = Load(g + c, lanes);
      Vec d = Load(dy + c, lanes);
      if (args.dropout.on) d = dropout.Apply(d, offset);
      Store(da + c, d * gate * activation.Derivative(input), lanes);
      Store(dg + c, d * activation.Value(input), lanes);
    });
  }
}

}  // namespace

template <typename T>
void GatedActivationForwardKernel(const GatedActivationForwardArgs& args) {
  WithActivation<T>(args.activation, [&]<typename A>() { GatedForward<T, A>(args); });
}

template <typename T>
void GatedActivationBackwardKernel(const GatedActivationBackwardArgs& args) {
  WithActivation<T>(args.activation, [&]<typename A>() { GatedBackward<T, A>(args); });
}

template void GatedActivationForwardKernel<float>(const GatedActivationForwardArgs&);
template void GatedActivationForwardKernel<BFloat16>(const GatedActivationForwardArgs&);
template void GatedActivationBackwardKernel<float>(const GatedActivationBackwardArgs&);
template void GatedActivationBackwardKernel<BFloat16>(const GatedActivationBackwardArgs&);

}  // namespace dtrain::DT_CPU_ISA
