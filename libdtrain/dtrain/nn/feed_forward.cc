// feed_forward.cc - the feed-forward block, keeping as little as its activation allows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/feed_forward.h"

#include <utility>

#include "dtrain/ops/gated_activation.h"
#include "dtrain/ops/gemm.h"

namespace dtrain {

FeedForward::FeedForward(const Scope& scope, const FeedForwardOptions& options)
    : options_(options),
      site_(scope.NewSite()),
      fc1_(scope, options.fc1_name, options.hidden_size, (options.gated ? 2 : 1) * options.ffn_size,
           options.weights, options.with_bias),
      fc2_(scope, options.fc2_name, options.ffn_size, options.hidden_size, options.weights,
           options.with_bias) {}

LinearActivationOptions FeedForward::ActivationOptions(const Tensor& row_numbers,
                                                       Context& ctx) const {
  return {.activation = options_.activation,
          .dropout = ctx.MakeDropout(options_.dropout, site_, row_numbers),
          .repeats = !in_place() && ctx.recompute() != Recompute::kNone};
}

Tensor FeedForward::ForwardGated(const Tensor& x, const Tensor& row_numbers, Context& ctx) {
  const LinearActivationOptions activation = ActivationOptions(row_numbers, ctx);
  LinearActivationSaved saved;
  saved.before = fc1_.Forward(x, ctx);
  saved.after = ctx.Empty({x.dim(0), options_.ffn_size});
  GatedActivationForward(saved.before, activation.activation, activation.dropout, saved.after,
                         ctx.stream());
  Tensor result = fc2_.ForwardNoBias(saved.after, ctx);
  if (ctx.training()) {
    if (activation.repeats) saved.after = Tensor();
    saved_ = std::move(saved);
  }
  return result;
}

void FeedForward::BackwardGated(const Tensor& x, const Tensor& row_numbers, const Tensor& d_out,
                                bool accumulate_dx, Tensor& dx, Context& ctx) {
  const LinearActivationOptions activation = ActivationOptions(row_numbers, ctx);
  if (!saved_.after) {
    saved_.after = ctx.Empty({x.dim(0), options_.ffn_size});
    GatedActivationForward(saved_.before, activation.activation, activation.dropout, saved_.after,
                           ctx.stream());
  }
  fc2_.AccumulateGradients(saved_.after, d_out, /*with_bias=*/false, ctx);
  // Nobody needs `after`, and later `before`, again: their gradients take their places.
  Tensor& d_after = saved_.after;
  Gemm(d_out, fc2_.weight(), {}, d_after, ctx.stream());
  fc2_.GradientsReady();
  Tensor d_before = saved_.before;
  GatedActivationBackward(d_after, saved_.before, activation.activation, activation.dropout,
                          d_before, ctx.stream());
  Release();
  fc1_.Backward(x, d_before, {.accumulate_dx = accumulate_dx}, dx, ctx);
}

Tensor FeedForward::Forward(const Tensor& x, const Tensor& row_numbers, Context& ctx) {
  if (options_.gated) return ForwardGated(x, row_numbers, ctx);
  const LinearActivationOptions activation = ActivationOptions(row_numbers, ctx);
  LinearActivationSaved saved;
  const Shape shape = {x.dim(0), fc1_.out()};
  // A GPU's fused products always write the activation's input.
  const bool keeps_before = ctx.training() || ctx.device().type == DeviceType::kCuda;
  if (!in_place() && keeps_before) saved.before = ctx.Empty(shape);
  saved.after = ctx.Empty(shape);
  if (ctx.training()) {
    const int64_t mask_bytes = ActivationMaskBytes(activation, fc1_.out(), x.dtype(), ctx.device());
    if (mask_bytes > 0) saved.mask = ctx.Empty({x.dim(0), mask_bytes}, DType::kUint8);
  }
  LinearActivationForward(x, fc1_.weight(), fc1_.bias(), activation, saved, ctx.stream());
  Tensor result = fc2_.ForwardNoBias(saved.after, ctx);
  if (ctx.training()) {
    if (!saved.is_masked) saved.mask = Tensor();
    if (activation.repeats) saved.after = Tensor();
    saved_ = std::move(saved);
  }
  return result;
}

void FeedForward::Backward(const Tensor& x, const Tensor& row_numbers, const Tensor& d_out,
                           bool accumulate_dx, Tensor& dx, Context& ctx) {
  DT_CHECK(saved_.before || saved_.after) << "Backward() without Forward()";
  if (options_.gated) return BackwardGated(x, row_numbers, d_out, accumulate_dx, dx, ctx);
  const LinearActivationOptions activation = ActivationOptions(row_numbers, ctx);
  if (!saved_.after) {
    saved_.after = ctx.Empty(saved_.before.shape());
    RepeatActivation(fc1_.bias(), activation, saved_, ctx.stream());
  }
  fc2_.AccumulateGradients(saved_.after, d_out, /*with_bias=*/false, ctx);
  Tensor d_before = ctx.Empty(saved_.after.shape());
  Tensor d_bias = fc1_.bias_gradient();
  LinearActivationBackward(d_out, fc2_.weight(), fc1_.bias(), activation, saved_, d_before, d_bias,
                           ctx.stream());
  fc2_.GradientsReady();
  Release();
  fc1_.Backward(x, d_before, {.bias_gradient = false, .accumulate_dx = accumulate_dx}, dx, ctx);
}

void FeedForward::Release() { saved_ = LinearActivationSaved(); }

}  // namespace dtrain
