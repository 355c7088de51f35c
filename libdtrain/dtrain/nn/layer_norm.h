// layer_norm.h - layer normalisation as a layer: gamma, beta and what backward needs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_LAYER_NORM_H_
#define DTRAIN_NN_LAYER_NORM_H_

#include <string_view>

#include "dtrain/nn/context.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

class LayerNorm {
 public:
  LayerNorm(const Scope& scope, std::string_view name, int64_t hidden, float epsilon);

  // y = LayerNorm(x); keeps x and its statistics while training.
  Tensor Forward(const Tensor& x, Context& ctx);
  // dx of Forward or ForwardSum, plus d_residual where given.
  Tensor Backward(const Tensor& dy, const Tensor& d_residual, Context& ctx);

  // The end of a post-norm sublayer: y = LayerNorm(residual + dropout(x + bias of `linear`)), where
  // x is linear's output without its bias. Keeps the sum while training. x's memory becomes the
  // sum.
  Tensor ForwardResidual(const Tensor& x, const Linear& linear, const Tensor& residual,
                         const Dropout& dropout, Context& ctx);
  // y = LayerNorm(x + other); Backward() gives the gradient of either. x's memory becomes the sum.
  Tensor ForwardSum(const Tensor& x, const Tensor& other, Context& ctx);
  // Gradients of the two inputs; bias gradient of `linear` included.
  struct ResidualGradients {
    Tensor d_residual;
    Tensor dx;  // the same memory as d_residual where dropout is off
  };
  ResidualGradients BackwardResidual(const Tensor& dy, const Linear& linear, const Dropout& dropout,
                                     Context& ctx);

  // Forward's result once more, from what was kept.
  Tensor RecomputeOutput(Context& ctx);
  // Forgets what forward kept.
  void Release();

 private:
  Tensor ForwardResidual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                         const Dropout& dropout, Context& ctx);
  void Ready() const;

  Parameter& gamma_;
  Parameter& beta_;
  float epsilon_;
  Tensor input_, mean_, rstd_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LAYER_NORM_H_
