// span_loss_kernel.h - arguments of the kernels that implement ops/span_loss.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_SPAN_LOSS_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_SPAN_LOSS_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// A row is a pair of a side and a sequence. Processes rows [row_begin, row_end); on CUDA all rows.
struct SpanLossArgs {
  const float* logits = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* offsets = nullptr;  // [sequences + 1]
  const float* scale = nullptr;      // one value
  float* loss = nullptr;
  float* d_logits = nullptr;  // optional
  int64_t row_begin = 0, row_end = 0, sequences = 0, tokens = 0;
  float share = 1.0f;  // 1 / sides
};
DT_DECLARE_CPU_KERNEL(SpanLossKernel, SpanLossArgs);
void SpanLossKernelCuda(const SpanLossArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_SPAN_LOSS_KERNEL_H_
