// layer_norm_kernel.h - arguments of the kernels that implement ops/layer_norm.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_LAYER_NORM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_LAYER_NORM_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes rows [row_begin, row_end). If `sum` is absent, this is plain layer norm of x.
struct LayerNormForwardArgs {
  Rows x{}, residual{}, sum{}, y{};
  const void* bias = nullptr;  // null if absent
  const float* gamma = nullptr;
  const float* beta = nullptr;  // null if absent
  float* mean = nullptr;
  float* rstd = nullptr;
  float epsilon = 0.0f;
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(LayerNormForwardKernel, LayerNormForwardArgs);
template <typename T>
void LayerNormForwardKernelCuda(const LayerNormForwardArgs& args, Stream& stream);

// Processes rows [row_begin, row_end). x is the input of the normalisation. d_x receives its
// gradient, plus d_residual if given; d_dropped, unless absent, receives the gradient after
// dropout. The column sums of these rows overwrite d_gamma and, unless null, d_beta and d_bias. The
// CUDA kernel processes all rows and adds to them instead.
struct LayerNormBackwardArgs {
  Rows dy{}, x{}, d_residual{}, d_x{}, d_dropped{};
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  float* d_gamma = nullptr;
  float* d_beta = nullptr;
  float* d_bias = nullptr;
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(LayerNormBackwardKernel, LayerNormBackwardArgs);
template <typename T>
void LayerNormBackwardKernelCuda(const LayerNormBackwardArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_LAYER_NORM_KERNEL_H_
