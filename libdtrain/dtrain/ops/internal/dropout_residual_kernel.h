// dropout_residual_kernel.h - arguments of the kernels of ops/dropout_residual.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_DROPOUT_RESIDUAL_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_DROPOUT_RESIDUAL_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes rows [row_begin, row_end).
struct DropoutResidualForwardArgs {
  Rows x{}, residual{}, out{};
  const void* bias = nullptr;  // null if absent
  DropoutDraw dropout{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(DropoutResidualForwardKernel, DropoutResidualForwardArgs);
template <typename T>
void DropoutResidualForwardKernelCuda(const DropoutResidualForwardArgs& args, Stream& stream);

// Processes rows [row_begin, row_end). Their column sums of dx overwrite d_bias unless it is null.
// The CUDA kernel processes all rows and adds to d_bias instead.
struct DropoutResidualBackwardArgs {
  Rows d_out{}, dx{};
  DropoutDraw dropout{};
  float* d_bias = nullptr;
  int64_t row_begin = 0, row_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(DropoutResidualBackwardKernel, DropoutResidualBackwardArgs);
template <typename T>
void DropoutResidualBackwardKernelCuda(const DropoutResidualBackwardArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_DROPOUT_RESIDUAL_KERNEL_H_
