// reduce_kernel.h - arguments of the kernels that implement ops/reduce.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_REDUCE_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_REDUCE_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// sums[c] = the sum of rows [row_begin, row_end) of column c.
struct ColumnSumsArgs {
  Rows x{};
  int64_t row_begin = 0, row_end = 0, columns = 0;
  float* sums = nullptr;
};
DT_DECLARE_CPU_KERNEL(ColumnSumsKernel, ColumnSumsArgs);
// The CUDA kernel processes all rows and adds to the sums.
template <typename T>
void ColumnSumsKernelCuda(const ColumnSumsArgs& args, Stream& stream);

// sums[c] += partials[0][c] + partials[1][c] + ... for columns [column_begin, column_end).
struct AddBlockSumsArgs {
  const float* partials = nullptr;
  int64_t blocks = 0, stride = 0;
  int64_t column_begin = 0, column_end = 0;
  float* sums = nullptr;
};
DT_DECLARE_CPU_KERNEL(AddBlockSumsKernel, AddBlockSumsArgs);

// *sum = the sum of n consecutive elements.
struct SumArgs {
  const void* x = nullptr;
  int64_t n = 0;
  double* sum = nullptr;
};
DT_DECLARE_CPU_KERNEL(SumKernel, SumArgs);

// out = {sum of squares, number of NaNs and infinities} of n consecutive elements.
struct SumOfSquaresArgs {
  const float* x = nullptr;
  int64_t n = 0;
  double* out = nullptr;
};
DT_DECLARE_CPU_KERNEL(SumOfSquaresKernel, SumOfSquaresArgs);

// Arguments of the CUDA kernels of both ops: a whole matrix, whose rows may be strided. The result
// goes to whichever of `as_double` and `as_float` is not null.
struct SumRowsArgs {
  Rows x{};
  int64_t rows = 0, columns = 0;
  double* as_double = nullptr;
  float* as_float = nullptr;
  bool accumulate = false;  // add to *as_double instead of overwriting it
};
template <typename T>
void SumKernelCuda(const SumRowsArgs& args, Stream& stream);
void SumOfSquaresKernelCuda(const SumRowsArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_REDUCE_KERNEL_H_
