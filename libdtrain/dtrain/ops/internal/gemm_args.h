// gemm_args.h - from the tensors of a matrix product to the pointers its kernels take.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_ARGS_H_
#define DTRAIN_OPS_INTERNAL_GEMM_ARGS_H_

#include "dtrain/device/tensor.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {

// c = op(a) op(b), or += where the options say so; without bias and epilogue. Extents and types
// were checked. b is [k, n], or [n, k] where it is transposed.
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
