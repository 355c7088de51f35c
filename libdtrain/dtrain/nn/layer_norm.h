// layer_norm.h - layer normalisation as a layer: gamma, beta and saved statistics.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   LayerNorm norm(Scope(parameters, "encoder"), "layer_norm", /*hidden=*/64, /*epsilon=*/1e-5f);
//   parameters.Allocate(ctx.device(), ctx.compute_type(), /*seed=*/1);
//   const Tensor y = norm.Forward(ctx.Empty({8, 64}), ctx);
#ifndef DTRAIN_NN_LAYER_NORM_H_
#define DTRAIN_NN_LAYER_NORM_H_

#include <string_view>

#include "dtrain/nn/context.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

struct Dropout;

// Ba, Kiros and Hinton, "Layer Normalization" (2016), over the last extent; x: [rows, hidden].
// Parameters: name.weight and, unless the norm is without bias, name.bias.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, std::string_view name, int64_t hidden, float epsilon,
            bool with_bias = true);

  // y = LayerNorm(x); keeps x and its statistics while training.
  Tensor Forward(const Tensor& x, Context& ctx);
  // Returns dx for Forward or ForwardSum, plus d_residual if given.
  Tensor Backward(const Tensor& dy, const Tensor& d_residual, Context& ctx);

  // The end of a post-norm sublayer: y = LayerNorm(residual + dropout(x + bias)), where x is the
  // output of `linear` without its bias. Keeps the sum while training. The sum overwrites x.
  Tensor ForwardResidual(const Tensor& x, const Linear& linear, const Tensor& residual,
                         const Dropout& dropout, Context& ctx);
  // y = LayerNorm(x + other). Backward() returns the gradient, which is the same for both. The sum
  // overwrites x.
  Tensor ForwardSum(const Tensor& x, const Tensor& other, Context& ctx);
  // The gradients of ForwardResidual's inputs.
  struct ResidualGradients {
    Tensor d_residual;
    Tensor dx;  // shares memory with d_residual if dropout is off
  };
  // Returns them, and accumulates the bias gradient of `linear`.
  ResidualGradients BackwardResidual(const Tensor& dy, const Linear& linear, const Dropout& dropout,
                                     Context& ctx);

  // Computes Forward's result again from the tensors that were kept.
  Tensor RecomputeOutput(Context& ctx);
  // Frees the tensors that Forward kept.
  void Release();

 private:
  Tensor ForwardResidual(const Tensor& x, const Tensor& bias, const Tensor& residual,
                         const Dropout& dropout, Context& ctx);
  void Ready() const;
  // Absent without bias.
  Tensor beta() const { return beta_ == nullptr ? Tensor() : beta_->master(); }
  Tensor beta_gradient() const { return beta_ == nullptr ? Tensor() : beta_->gradient(); }

  Parameter& gamma_;
  Parameter* beta_;  // null without bias
  float epsilon_;
  Tensor input_, mean_, rstd_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LAYER_NORM_H_
