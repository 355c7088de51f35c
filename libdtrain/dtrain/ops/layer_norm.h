// layer_norm.h - layer normalisation, alone or fused with bias, dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
//
// Ba et al., "Layer Normalization" (2016), equation 4, per row:
//   y = (x - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + epsilon)
// Statistics are float32; x and y have one type; gamma and beta are float32 (the master copies).
#ifndef DTRAIN_OPS_LAYER_NORM_H_
#define DTRAIN_OPS_LAYER_NORM_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

// x, y: [rows, hidden]; gamma, beta: [hidden], float32; mean, rstd: [rows], float32. In all ops of
// this file beta, and with it d_beta, may be absent: then nothing is added.
void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                      Tensor& y, Tensor& mean, Tensor& rstd, Stream& stream);

// dx = the gradient of LayerNormForward, plus `d_residual` if given. dx is overwritten and may be
// d_residual or dy. d_gamma, d_beta: [hidden], float32, are accumulated into.
void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                       const Tensor& rstd, const Tensor& d_residual, Tensor& dx, Tensor& d_gamma,
                       Tensor& d_beta, Stream& stream);

// The end of a post-norm sublayer in one pass:
//   sum = residual + dropout(x + bias),  y = LayerNorm(sum)
// x, residual, sum, y: [rows, hidden] of one type; bias: [hidden] of the same type, or absent. sum
// may be x or residual.
void ResidualLayerNormForward(const Tensor& x, const Tensor& bias, const Tensor& residual,
                              const Dropout& dropout, const Tensor& gamma, const Tensor& beta,
                              float epsilon, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd,
                              Stream& stream);

// d_sum: the gradient of `residual`; may be dy. dx: the gradient of `x`, after dropout; may be
// d_sum if dropout is off. d_bias, d_gamma, d_beta: [hidden], float32, are accumulated into; d_bias
// may be absent.
void ResidualLayerNormBackward(const Tensor& dy, const Tensor& sum, const Tensor& gamma,
                               const Tensor& mean, const Tensor& rstd, const Dropout& dropout,
                               Tensor& d_sum, Tensor& dx, Tensor& d_bias, Tensor& d_gamma,
                               Tensor& d_beta, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_LAYER_NORM_H_
