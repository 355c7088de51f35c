// cast_kernel.h - arguments of the kernels that implement ops/cast.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// y = x for n consecutive elements; T is x's type.
struct CastArgs {
  const void* x = nullptr;
  void* y = nullptr;
  bool to_bfloat16 = false;  // the type of y: bfloat16 or float
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(CastKernel, CastArgs);

// y = y_factor y + x_factor x for n consecutive elements.
struct BlendArgs {
  const void* x = nullptr;
  void* y = nullptr;
  float x_factor = 1.0f, y_factor = 1.0f;
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(BlendKernel, BlendArgs);

// x *= factor for n consecutive elements.
struct ScaleArgs {
  void* x = nullptr;
  float factor = 1.0f;
  int64_t n = 0;
};
DT_DECLARE_CPU_KERNEL(ScaleKernel, ScaleArgs);

// out[rows[i]] += x[i] for i in [0, n), in order; columns [column_begin, column_end).
struct ScatterAddRowsArgs {
  Rows x{}, out{};
  const int32_t* rows = nullptr;
  int64_t n = 0;
  int64_t column_begin = 0, column_end = 0;
};
DT_DECLARE_CPU_KERNEL(ScatterAddRowsKernel, ScatterAddRowsArgs);

// Arguments of the CUDA kernels of elementwise ops: whole matrices, whose rows may be strided. A
// contiguous tensor is one row.
struct BlendRowsArgs {
  Rows x{}, y{};
  int64_t rows = 0, columns = 0;
  float x_factor = 1.0f, y_factor = 1.0f;
  // If not null, x_factor and y_factor are replaced by 1 - *decay and *decay.
  const float* decay = nullptr;
};
// y = x_factor x, where y has type U.
template <typename T, typename U>
void CastRowsKernelCuda(const BlendRowsArgs& args, Stream& stream);
// y = y_factor y + x_factor x.
template <typename T>
void BlendRowsKernelCuda(const BlendRowsArgs& args, Stream& stream);

// x[begin[i] + j] = 0 for i in [0, count), j in [0, elements[i]). A kernel's arguments are at most
// 4 KiB, hence the limit.
struct ZeroRangesArgs {
  static constexpr int kMostRanges = 256;
  float* x = nullptr;
  int count = 0;
  int64_t begin[kMostRanges] = {};
  int32_t elements[kMostRanges] = {};
};
void ZeroRangesKernelCuda(const ZeroRangesArgs& args, Stream& stream);

// out[i] = x[rows[i]] for i in [0, n). Rows have `row_bytes`, elements have `element_bytes`.
struct GatherRowsArgs {
  Rows x{}, out{};
  const int32_t* rows = nullptr;
  int64_t n = 0;
  int64_t row_bytes = 0, element_bytes = 1;
};
void GatherRowsKernelCuda(const GatherRowsArgs& args, Stream& stream);

// Processes all columns; column_begin is 0.
template <typename T>
void ScatterAddRowsKernelCuda(const ScatterAddRowsArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CAST_KERNEL_H_
