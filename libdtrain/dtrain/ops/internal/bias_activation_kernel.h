// bias_activation_kernel.h - arguments of the kernels that implement ops/bias_activation.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_BIAS_ACTIVATION_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_BIAS_ACTIVATION_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes rows [row_begin, row_end).
struct BiasActivationForwardArgs {
  Rows x{}, y{};
  const void* bias = nullptr;  // null if absent
  Activation activation = Activation::kRelu;
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(BiasActivationForwardKernel, BiasActivationForwardArgs);
template <typename T>
void BiasActivationForwardKernelCuda(const BiasActivationForwardArgs& args, Stream& stream);

// Processes rows [row_begin, row_end). Their column sums of dx overwrite d_bias unless it is null.
// The CUDA kernels process all rows and add to d_bias instead.
struct BiasActivationBackwardArgs {
  Rows dy{}, x{}, dx{};
  const void* bias = nullptr;
  Activation activation = Activation::kRelu;
  DropoutDraw dropout{};
  float* d_bias = nullptr;
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(BiasActivationBackwardKernel, BiasActivationBackwardArgs);
template <typename T>
void BiasActivationBackwardKernelCuda(const BiasActivationBackwardArgs& args, Stream& stream);

// Like above with the forward's output as `x`. Only the scale of `dropout` is used.
DT_DECLARE_CPU_KERNEL(ReluBackwardFromOutputKernel, BiasActivationBackwardArgs);
template <typename T>
void ReluBackwardFromOutputKernelCuda(const BiasActivationBackwardArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_BIAS_ACTIVATION_KERNEL_H_
