// cross_entropy_kernel.h - arguments of the kernels that implement ops/cross_entropy.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// All kernels here process rows [row_begin, row_end); on CUDA all rows.
struct CrossEntropyForwardArgs {
  Rows logits{};
  const int32_t* targets = nullptr;
  float smoothing = 0.0f;
  float* loss = nullptr;
  float* nll = nullptr;
  float* log_sum_exp = nullptr;
  int64_t row_begin = 0, row_end = 0, classes = 0;
};
DT_DECLARE_CPU_KERNEL(CrossEntropyForwardKernel, CrossEntropyForwardArgs);
template <typename T>
void CrossEntropyForwardKernelCuda(const CrossEntropyForwardArgs& args, Stream& stream);

struct CrossEntropyBackwardArgs {
  Rows logits{}, d_logits{};
  const int32_t* targets = nullptr;
  const float* log_sum_exp = nullptr;
  float smoothing = 0.0f;
  const float* scale = nullptr;  // one value
  int64_t row_begin = 0, row_end = 0, classes = 0;
};
DT_DECLARE_CPU_KERNEL(CrossEntropyBackwardKernel, CrossEntropyBackwardArgs);
template <typename T>
void CrossEntropyBackwardKernelCuda(const CrossEntropyBackwardArgs& args, Stream& stream);

struct LogSoftmaxArgs {
  Rows logits{}, out{};  // out is float
  int64_t row_begin = 0, row_end = 0, classes = 0;
};
DT_DECLARE_CPU_KERNEL(LogSoftmaxKernel, LogSoftmaxArgs);
template <typename T>
void LogSoftmaxKernelCuda(const LogSoftmaxArgs& args, Stream& stream);

struct ArgMaxArgs {
  Rows logits{};
  int32_t* ids = nullptr;
  int64_t row_begin = 0, row_end = 0, classes = 0;
};
DT_DECLARE_CPU_KERNEL(ArgMaxKernel, ArgMaxArgs);
template <typename T>
void ArgMaxKernelCuda(const ArgMaxArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CROSS_ENTROPY_KERNEL_H_
