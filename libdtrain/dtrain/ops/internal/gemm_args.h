// gemm_args.h - turns the tensors of a matrix product into the kernels' arguments.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_ARGS_H_
#define DTRAIN_OPS_INTERNAL_GEMM_ARGS_H_

#include "dtrain/device/tensor.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {

// The arguments of c = op(a) op(b), or c += op(a) op(b) with options.accumulate, without bias and
// epilogue. Shapes and types must have been checked. b is [k, n], or [n, k] if transposed.
inline GemmArgs ArgsOf(const Tensor& a, const Tensor& b, const GemmOptions& options,
                       const Tensor& c) {
  return {.m = c.dim(0),
          .n = c.dim(1),
          .k = a.dim(options.transpose_a ? 0 : 1),
          .a = a.raw(),
          .b = b.raw(),
          .c = c.raw(),
          .bias = nullptr,
          .a_stride = a.row_stride(),
          .b_stride = b.row_stride(),
          .c_stride = c.row_stride(),
          .transpose_a = options.transpose_a,
          .transpose_b = options.transpose_b,
          .accumulate = options.accumulate,
          .c_type = c.dtype()};
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_ARGS_H_
