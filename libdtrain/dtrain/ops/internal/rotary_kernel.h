// rotary_kernel.h - arguments of the kernels that implement ops/rotary.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ROTARY_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_ROTARY_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes rows [row_begin, row_end) of x.
struct RotaryArgs {
  Rows x{};
  const float* table = nullptr;           // [positions, head_dim]: cosines, then sines
  const int32_t* position_ids = nullptr;  // [rows]
  float direction = 1.0f;                 // factor of the sines: 1 turns forward, -1 backward
  int64_t row_begin = 0, row_end = 0, columns = 0, head_dim = 0;
};
DT_DECLARE_CPU_KERNEL(RotaryKernel, RotaryArgs);
template <typename T>
void RotaryKernelCuda(const RotaryArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ROTARY_KERNEL_H_
