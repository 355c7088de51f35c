// feed_forward.cc - the feed-forward block, keeping as little as its activation allows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/feed_forward.h"

namespace dtrain {

FeedForward::FeedForward(const Scope& scope, const FeedForwardOptions& options)
    : options_(options),
      site_(scope.NewSite()),
      fc1_(scope, options.fc1_name, options.hidden_size, options.ffn_size, options.weights),
      fc2_(scope, options.fc2_name, options.ffn_size, options.hidden_size, options.weights) {}

Tensor FeedForward::Forward(const Tensor& x, Context& ctx) {
  const Tensor before = fc1_.ForwardNoBias(x, ctx);
  Tensor after = in_place() ? before : ctx.Empty(before.shape());
  BiasActivationForward(before, fc1_.bias(), options_.activation,
                        ctx.MakeDropout(options_.dropout, site_), after, ctx.stream());
  Tensor result = fc2_.ForwardNoBias(after, ctx);
  if (ctx.training()) {
    if (!in_place()) before_ = before;
    if (in_place() || ctx.recompute() == Recompute::kNone) after_ = after;
  }
  return result;
}

void FeedForward::Backward(const Tensor& x, const Tensor& d_out, bool accumulate_dx, Tensor& dx,
                           Context& ctx) {
  DT_CHECK(before_ || after_) << "Backward() without Forward()";
  const Dropout dropout = ctx.MakeDropout(options_.dropout, site_);
  if (!after_) {
    after_ = ctx.Empty(before_.shape());
    BiasActivationForward(before_, fc1_.bias(), options_.activation, dropout, after_, ctx.stream());
  }
  Tensor d_after = ctx.Empty(after_.shape());
  fc2_.Backward(after_, d_out, {.bias_gradient = false}, d_after, ctx);
  Tensor& d_before = d_after;
  Tensor d_bias = fc1_.bias_gradient();
  if (in_place()) {
    ReluBackwardFromOutput(d_after, after_, dropout, d_before, d_bias, ctx.stream());
  } else {
    BiasActivationBackward(d_after, before_, fc1_.bias(), options_.activation, dropout, d_before,
                           d_bias, ctx.stream());
  }
  Release();
  fc1_.Backward(x, d_before, {.bias_gradient = false, .accumulate_dx = accumulate_dx}, dx, ctx);
}

void FeedForward::Release() { before_ = after_ = Tensor(); }

}  // namespace dtrain
