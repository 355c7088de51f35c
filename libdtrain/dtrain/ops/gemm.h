// gemm.h - matrix products with an optional bias.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_GEMM_H_
#define DTRAIN_OPS_GEMM_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // add to c instead of overwriting it
};

// c = op(a) op(b), plus c if `accumulate`, with op(a): [m, k], op(b): [k, n], c: [m, n]; rows may
// be strided. a and b have the same type: float32, bfloat16 or, on CUDA, float16. c has that type
// or float32. Sums are in float32. m, n and k may be 0; k = 0 gives zeros.
void Gemm(const Tensor& a, const Tensor& b, const GemmOptions& options, Tensor& c, Stream& stream);

// A linear layer's output: y = x weight^T + bias, as torch.nn.Linear. x: [rows, in], weight: [out,
// in], bias: [out] or absent, y: [rows, out], all of one type.
void LinearForward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                   Stream& stream);

struct LinearBackwardOptions {
  bool accumulate_weight = true;  // add to d_weight instead of overwriting it
};

// Gradients of that layer's parameters: d_weight = dy^T x, or d_weight += dy^T x, and, if d_bias is
// not absent, d_bias += column sums of dy. dy: [rows, out], x: [rows, in] of one type; d_weight:
// [out, in], d_bias: [out], float32.
void LinearBackwardParameters(const Tensor& dy, const Tensor& x,
                              const LinearBackwardOptions& options, Tensor& d_weight,
                              Tensor& d_bias, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_GEMM_H_
