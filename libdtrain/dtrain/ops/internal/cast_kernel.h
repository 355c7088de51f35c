// cast_kernel.h - arguments of the CPU kernels behind ops/cast.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_

#include <cstdint>

#include "dtrain/ops/internal/cpu_kernel.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// y = x over n consecutive elements; T is x's type.
struct CastArgs {
  const void* x = nullptr;
  void* y = nullptr;
  bool to_bfloat16 = false;  // otherwise to float
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(CastKernel, CastArgs);

// y = y_factor y + x_factor x over n consecutive elements.
struct BlendArgs {
  const void* x = nullptr;
  void* y = nullptr;
  float x_factor = 1.0f, y_factor = 1.0f;
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(BlendKernel, BlendArgs);

// x *= factor over n consecutive elements.
struct ScaleArgs {
  void* x = nullptr;
  float factor = 1.0f;
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(ScaleKernel, ScaleArgs);

// out[rows[i]] += x[i] for i in [0, n) in order, columns [column_begin, column_end).
struct ScatterAddRowsArgs {
  Rows x{}, out{};
  const int32_t* rows = nullptr;
  int64_t n = 0;
  int64_t column_begin = 0, column_end = 0;
};
DT_DECLARE_CPU_KERNEL(ScatterAddRowsKernel, ScatterAddRowsArgs);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_
