// layer_norm.cc - layer normalisation with its saved statistics.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/layer_norm.h"

#include "dtrain/ops/layer_norm.h"

namespace dtrain {

LayerNorm::LayerNorm(const Scope& scope, std::string_view name, int64_t hidden, float epsilon,
                     bool with_bias)
    : gamma_((scope / name).Add("weight", {hidden}, Initializer::Constant(1.0f))),
      beta_(with_bias ? &(scope / name).Add("bias", {hidden}, Initializer::Constant(0.0f))
                      : nullptr),
      epsilon_(epsilon) {}

Tensor LayerNorm::Forward(const Tensor& x, Context& ctx) {
  Tensor y = ctx.Empty(x.shape());
  Tensor mean = ctx.Empty({x.dim(0)}, DType::kFloat32);
  Tensor rstd = ctx.Empty({x.dim(0)}, DType::kFloat32);
  LayerNormForward(x, gamma_.master(), beta(), epsilon_, y, mean, rstd, ctx.stream());
  if (ctx.training()) {
    input_ = x;
    mean_ = mean;
    rstd_ = rstd;
  }
  return y;
}

Tensor LayerNorm::Backward(const Tensor& dy, const Tensor& d_residual, Context& ctx) {
  DT_CHECK(input_) << "Backward() without Forward()";
  Tensor dx = ctx.Empty(dy.shape());
  Tensor d_beta = beta_gradient();
  LayerNormBackward(dy, input_, gamma_.master(), mean_, rstd_, d_residual, dx, gamma_.gradient(),
                    d_beta, ctx.stream());
  Ready();
  return dx;
}

Tensor LayerNorm::ForwardResidual(const Tensor& x, const Linear& linear, const Tensor& residual,
                                  const Dropout& dropout, Context& ctx) {
  return ForwardResidual(x, linear.bias(), residual, dropout, ctx);
}

Tensor LayerNorm::ForwardSum(const Tensor& x, const Tensor& other, Context& ctx) {
  return ForwardResidual(x, Tensor(), other, Dropout(), ctx);
}

Tensor LayerNorm::ForwardResidual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                                  const Dropout& dropout, Context& ctx) {
  Tensor y = ctx.Empty(x.shape());
  Tensor mean = ctx.Empty({x.dim(0)}, DType::kFloat32);
  Tensor rstd = ctx.Empty({x.dim(0)}, DType::kFloat32);
  Tensor sum = x;
  ResidualLayerNormForward(x, bias, residual, dropout, gamma_.master(), beta(), epsilon_, sum, y,
                           mean, rstd, ctx.stream());
  if (ctx.training()) {
    input_ = sum;
    mean_ = mean;
    rstd_ = rstd;
  }
  return y;
}

LayerNorm::ResidualGradients LayerNorm::BackwardResidual(const Tensor& dy, const Linear& linear,
                                                         const Dropout& dropout, Context& ctx) {
  DT_CHECK(input_) << "BackwardResidual() without ForwardResidual()";
  ResidualGradients gradients;
  gradients.d_residual = ctx.Empty(dy.shape());
  gradients.dx = dropout.probability > 0.0f ? ctx.Empty(dy.shape()) : gradients.d_residual;
  Tensor d_bias = linear.bias_gradient();
  Tensor d_beta = beta_gradient();
  ResidualLayerNormBackward(dy, input_, gamma_.master(), mean_, rstd_, dropout,
                            gradients.d_residual, gradients.dx, d_bias, gamma_.gradient(), d_beta,
                            ctx.stream());
  Ready();
  return gradients;
}

Tensor LayerNorm::RecomputeOutput(Context& ctx) {
  DT_CHECK(input_) << "RecomputeOutput() without a forward pass";
  Tensor y = ctx.Empty(input_.shape());
  LayerNormForward(input_, gamma_.master(), beta(), epsilon_, y, mean_, rstd_, ctx.stream());
  return y;
}

void LayerNorm::Release() { input_ = mean_ = rstd_ = Tensor(); }

void LayerNorm::Ready() const {
  if (beta_ != nullptr) beta_->GradientReady();
  gamma_.GradientReady();
}

}  // namespace dtrain
