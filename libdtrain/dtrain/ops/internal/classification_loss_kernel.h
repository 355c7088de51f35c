// classification_loss_kernel.h - arguments of ops/classification_loss.h's kernels.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CLASSIFICATION_LOSS_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_CLASSIFICATION_LOSS_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/classification_loss.h"

namespace dtrain {

// Rows [row_begin, row_end); on CUDA all rows. Optional pointers may be null.
struct ClassificationLossArgs {
  ClassificationLossKind kind = ClassificationLossKind::kSoftmax;
  const float* logits = nullptr;
  const float* targets = nullptr;
  const float* weights = nullptr;         // optional
  const float* output_weights = nullptr;  // optional
  const float* scale = nullptr;           // one value
  float* loss = nullptr;
  float* unweighted = nullptr;
  float* probabilities = nullptr;  // optional
  float* d_logits = nullptr;       // optional
  int64_t row_begin = 0, row_end = 0, outputs = 0;
};
DT_DECLARE_CPU_KERNEL(ClassificationLossKernel, ClassificationLossArgs);
void ClassificationLossKernelCuda(const ClassificationLossArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CLASSIFICATION_LOSS_KERNEL_H_
