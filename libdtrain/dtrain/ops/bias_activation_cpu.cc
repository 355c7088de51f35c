// bias_activation_cpu.cc - bias, activation and dropout in one pass over the rows.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "dtrain/ops/internal/activation_lanes.h"
#include "dtrain/ops/internal/bias_activation_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {
namespace {

#if defined(__AVX512BF16__)

// Whole rows of gelu without bias or dropout.
void ForwardGelu(const BiasActivationForwardArgs& args) {
  const RoundedGeluErf gelu;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const BFloat16* const x = Row<BFloat16>(args.x, r);
    BFloat16* const y = Row<BFloat16>(args.y, r);
    int64_t c = 0;
    for (; c + kSplitLanes <= args.columns; c += kSplitLanes) gelu.Values(x + c, y + c);
    ForLanes(c, args.columns, [&](int64_t at, auto lanes) {
      Store(y + at, gelu.Value(Load(x + at, lanes)), lanes);
    });
  }
}

#endif

template <typename T, typename A>
void Forward(const BiasActivationForwardArgs& args) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<A, RoundedGeluErf>) {
    if (args.bias == nullptr && !args.dropout.on) return ForwardGelu(args);
  }
#endif
  DropoutStretch dropout(args.dropout);
  const T* const bias = static_cast<const T*>(args.bias);
  const A activation;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.x, r);
    T* const y = Row<T>(args.y, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec value = Load(x + c, lanes);
      if (bias != nullptr) value += Load(bias + c, lanes);
      value = activation.Value(value);
      if (args.dropout.on) value = dropout.Apply(value, offset);
      Store(y + c, value, lanes);
    });
  }
}

template <typename T, typename A>
void Backward(const BiasActivationBackwardArgs& args) {
  if (args.d_bias != nullptr) ClearFloats(args.d_bias, args.columns);
  DropoutStretch dropout(args.dropout);
  const T* const bias = static_cast<const T*>(args.bias);
  const A activation;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const dy = Row<T>(args.dy, r);
    const T* const x = Row<T>(args.x, r);
    T* const dx = Row<T>(args.dx, r);
    const uint64_t first = FirstElement(args.dropout, r, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec input = Load(x + c, lanes);
      if (bias != nullptr) input += Load(bias + c, lanes);
      Vec d = Load(dy + c, lanes);
      if (args.dropout.on) d = dropout.Apply(d, offset);
      d *= activation.Derivative(input);
      Store(dx + c, d, lanes);
      if (args.d_bias != nullptr) Store(args.d_bias + c, Load(args.d_bias + c, lanes) + d, lanes);
    });
  }
}

}  // namespace

template <typename T>
void BiasActivationForwardKernel(const BiasActivationForwardArgs& args) {
  WithActivation<T>(args.activation, [&]<typename A>() { Forward<T, A>(args); });
}

template <typename T>
void BiasActivationBackwardKernel(const BiasActivationBackwardArgs& args) {
  WithActivation<T>(args.activation, [&]<typename A>() { Backward<T, A>(args); });
}

// y is 0 where relu or dropout zeroed the element, so the dropout bits are not needed again.
template <typename T>
void ReluBackwardFromOutputKernel(const BiasActivationBackwardArgs& args) {
  if (args.d_bias != nullptr) ClearFloats(args.d_bias, args.columns);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const dy = Row<T>(args.dy, r);
    const T* const y = Row<T>(args.x, r);
    T* const dx = Row<T>(args.dx, r);
    ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
      const Vec d = Load(y + c, lanes) == 0.0f ? Vec{} : Load(dy + c, lanes) * args.dropout.scale;
      Store(dx + c, d, lanes);
      if (args.d_bias != nullptr) Store(args.d_bias + c, Load(args.d_bias + c, lanes) + d, lanes);
    });
  }
}

template void BiasActivationForwardKernel<float>(const BiasActivationForwardArgs&);
template void BiasActivationForwardKernel<BFloat16>(const BiasActivationForwardArgs&);
template void BiasActivationBackwardKernel<float>(const BiasActivationBackwardArgs&);
template void BiasActivationBackwardKernel<BFloat16>(const BiasActivationBackwardArgs&);
template void ReluBackwardFromOutputKernel<float>(const BiasActivationBackwardArgs&);
template void ReluBackwardFromOutputKernel<BFloat16>(const BiasActivationBackwardArgs&);

}  // namespace dtrain::DT_CPU_ISA
