// head_product.h - the small last product of a head: logits that are always float32.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_INTERNAL_HEAD_PRODUCT_H_
#define DTRAIN_MODELS_INTERNAL_HEAD_PRODUCT_H_

#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain::internal {

// x weight^T + bias, for x: [rows, hidden] and weight: [outputs, hidden]. The logits are float32
// because everything depends on these few numbers.
inline Tensor HeadLogits(const Tensor& x, const Parameter& weight, Parameter& bias, Context& ctx) {
  Tensor logits = ctx.Empty({x.dim(0), weight.value().dim(0)}, DType::kFloat32);
  Gemm(x, weight.value(), {.transpose_b = true}, logits, ctx.stream());
  DropoutResidualForward(logits, bias.master(), Tensor(), {}, logits, ctx.stream());
  return logits;
}

inline void ToComputeType(Tensor& x, Context& ctx) {
  if (ctx.compute_type() == DType::kFloat32) return;
  Tensor narrow = ctx.Empty(x.shape());
  Cast(x, narrow, ctx.stream());
  x = narrow;
}

// Accumulates the gradients of weight and bias. Returns the gradient of x and frees x. d_logits is
// converted to the compute type.
inline Tensor HeadBackward(Tensor& d_logits, Tensor& x, Parameter& weight, Parameter& bias,
                           Context& ctx) {
  AccumulateColumnSums(d_logits, bias.gradient(), ctx.stream());
  bias.GradientReady();
  ToComputeType(d_logits, ctx);
  Gemm(d_logits, x, {.transpose_a = true, .accumulate = true}, weight.gradient(), ctx.stream());
  weight.GradientReady();
  Tensor dx = ctx.Empty(x.shape());
  Gemm(d_logits, weight.value(), {}, dx, ctx.stream());
  x = Tensor();
  return dx;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_MODELS_INTERNAL_HEAD_PRODUCT_H_
