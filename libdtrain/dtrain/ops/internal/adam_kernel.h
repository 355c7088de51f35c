// adam_kernel.h - arguments of the kernels that implement ops/adam.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ADAM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_ADAM_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/ops/adam.h"

namespace dtrain {

// Updates elements [begin, end); on CUDA, begin is 0. T is the type of `copy`, which may be null.
struct AdamArgs {
  const float* gradients = nullptr;
  const AdamStep* step = nullptr;  // in device memory
  float* weights = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  void* copy = nullptr;
  AdamOptions options{};
  int64_t begin = 0, end = 0;
};
DT_DECLARE_CPU_KERNEL(AdamKernel, AdamArgs);
template <typename T>
void AdamKernelCuda(const AdamArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ADAM_KERNEL_H_
