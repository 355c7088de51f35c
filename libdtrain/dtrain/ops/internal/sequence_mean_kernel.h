// sequence_mean_kernel.h - arguments of the kernels that implement ops/sequence_mean.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_SEQUENCE_MEAN_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_SEQUENCE_MEAN_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes sequences [begin, end).
struct SequenceMeanArgs {
  Rows tokens{};                     // x, or dx
  Rows means{};                      // y, or dy
  const int32_t* offsets = nullptr;  // [sequences + 1]: where each sequence's rows begin
  int64_t begin = 0, end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(SequenceMeanForwardKernel, SequenceMeanArgs);
DT_DECLARE_CPU_KERNEL(SequenceMeanBackwardKernel, SequenceMeanArgs);
template <typename T>
void SequenceMeanForwardCuda(const SequenceMeanArgs& args, Stream& stream);
template <typename T>
void SequenceMeanBackwardCuda(const SequenceMeanArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_SEQUENCE_MEAN_KERNEL_H_
