// linear.cc - a linear layer's products, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/linear.h"

#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/nn/internal/product_gradient.h"
#include "dtrain/ops/gemm.h"

namespace dtrain {

Linear::Linear(const Scope& scope, std::span<const std::string_view> names, int64_t in, int64_t out,
               const Initializer& weights, bool with_bias)
    : in_(in), out_(out * static_cast<int64_t>(names.size())) {
  const int weight_group = scope.NewGroup();
  const int bias_group = with_bias ? scope.NewGroup() : 0;
  for (const std::string_view name : names) {
    const Scope part = scope / name;
    weights_.push_back(&part.Add("weight", {out, in}, weights, weight_group));
    weights_.back()->MarkProductGradient();
    part.AddAdapter(*weights_.back());
    if (!with_bias) continue;
    biases_.push_back(&part.Add("bias", {out}, Initializer::Constant(0.0f), bias_group));
  }
}

Linear Linear::Parts(size_t first, size_t count) const {
  DT_CHECK_LE(first + count, weights_.size());
  const auto begin = static_cast<ptrdiff_t>(first);
  const auto end = static_cast<ptrdiff_t>(first + count);
  Linear parts;
  parts.in_ = in_;
  parts.out_ = out_ / static_cast<int64_t>(weights_.size()) * static_cast<int64_t>(count);
  parts.weights_ = {weights_.begin() + begin, weights_.begin() + end};
  if (!biases_.empty()) parts.biases_ = {biases_.begin() + begin, biases_.begin() + end};
  return parts;
}

Tensor Linear::weight() const { return Fused(weights_.front()->value(), {out_, in_}); }
Tensor Linear::bias() const {
  if (biases_.empty()) return {};
  return Fused(biases_.front()->value(), {out_});
}
Tensor Linear::bias_gradient() const {
  if (biases_.empty()) return {};
  return Fused(biases_.front()->gradient(), {out_});
}

Tensor Linear::Forward(const Tensor& x, Context& ctx) const {
  Tensor y = ctx.Empty({x.dim(0), out_});
  LinearForward(x, weight(), bias(), y, ctx.stream());
  return y;
}

Tensor Linear::ForwardNoBias(const Tensor& x, Context& ctx) const {
  Tensor y = ctx.Empty({x.dim(0), out_});
  LinearForward(x, weight(), Tensor(), y, ctx.stream());
  return y;
}

void Linear::Backward(const Tensor& x, const Tensor& dy, const BackwardOptions& options, Tensor& dx,
                      Context& ctx) const {
  AccumulateGradients(x, dy, options.bias_gradient, ctx);
  if (dx) Gemm(dy, weight(), {.accumulate = options.accumulate_dx}, dx, ctx.stream());
  if (options.report_ready) GradientsReady();
}

void Linear::AccumulateGradients(const Tensor& x, const Tensor& dy, bool with_bias,
                                 Context& ctx) const {
  if (weights_.front()->is_frozen()) return AccumulateAdapters(x, dy, ctx);
  ProductGradient weight = Parameter::TakeProductGradient(weights_, {out_, in_});
  Tensor d_bias = with_bias ? bias_gradient() : Tensor();
  LinearBackwardParameters(dy, x, {.accumulate_weight = weight.accumulate}, weight.gradient, d_bias,
                           ctx.stream());
}

void Linear::AccumulateAdapters(const Tensor& x, const Tensor& dy, Context& ctx) const {
  const int64_t width = out_ / static_cast<int64_t>(weights_.size());
  for (size_t part = 0; part < weights_.size(); ++part) {
    const LowRankAdapter* const adapter = AdapterOf(*weights_[part]);
    if (adapter == nullptr) continue;
    const auto begin = static_cast<int64_t>(part) * width;
    const Tensor d_part = dy.Columns(begin, begin + width);
    Tensor low = ctx.Empty({x.dim(0), adapter->a->shape()[0]});
    Gemm(x, adapter->scaled_a, {.transpose_b = true}, low, ctx.stream());
    internal::AddProductGradient(d_part, low, *adapter->b, ctx.stream());
    Gemm(d_part, adapter->scaled_b, {}, low, ctx.stream());
    internal::AddProductGradient(low, x, *adapter->a, ctx.stream());
  }
}

void Linear::GradientsReady() const {
  for (const Parameter* bias : biases_) bias->GradientReady();
  for (const Parameter* weight : weights_) {
    weight->GradientReady();
    const LowRankAdapter* const adapter = AdapterOf(*weight);
    if (adapter == nullptr) continue;
    adapter->b->GradientReady();
    adapter->a->GradientReady();
  }
}

}  // namespace dtrain
