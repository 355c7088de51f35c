// gated_activation_kernel.h - arguments of the kernels that implement ops/gated_activation.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GATED_ACTIVATION_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_GATED_ACTIVATION_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/activation.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes rows [row_begin, row_end). a and g are the halves of x; `columns` counts those of y.
struct GatedActivationForwardArgs {
  Rows a{}, g{}, y{};
  Activation activation = Activation::kGeluErf;
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(GatedActivationForwardKernel, GatedActivationForwardArgs);
template <typename T>
void GatedActivationForwardKernelCuda(const GatedActivationForwardArgs& args, Stream& stream);

// da and dg may be a and g.
struct GatedActivationBackwardArgs {
  Rows dy{}, a{}, g{}, da{}, dg{};
  Activation activation = Activation::kGeluErf;
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(GatedActivationBackwardKernel, GatedActivationBackwardArgs);
template <typename T>
void GatedActivationBackwardKernelCuda(const GatedActivationBackwardArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GATED_ACTIVATION_KERNEL_H_
