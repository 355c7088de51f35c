// loss_sums.cc - sums returned to the host, or added to a trainer's totals on the device.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/loss_sums.h"

#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

Tensor One(Context& ctx) {
  constexpr float kOne = 1.0f;
  Tensor scale = ctx.Empty({1}, DType::kFloat32);
  Upload<float>({&kOne, 1}, scale, ctx.stream());
  return scale;
}

// The sum of all values, or 0 for an absent tensor.
double SumOf(const Tensor& values, Context& ctx) {
  if (!values) return 0.0;
  Tensor total = ctx.Empty({1}, DType::kFloat64);
  Sum(values, total, ctx.stream());
  return Download<double>(total, ctx.stream()).front();
}

}  // namespace

LossAccount::LossAccount(Context& ctx)
    : ctx_(ctx),
      for_trainer_(ctx.training() && ctx.loss().scale),
      scale_(for_trainer_ ? ctx.loss().scale : One(ctx)) {}

LossSums LossAccount::Add(const Tensor& loss, const Tensor& nll, int64_t tokens) {
  if (!for_trainer_) {
    return {.loss = SumOf(loss, ctx_), .nll = SumOf(nll, ctx_), .tokens = tokens};
  }
  Tensor loss_sum = ctx_.loss().loss_sum;
  Tensor nll_sum = ctx_.loss().nll_sum;
  AccumulateSum(loss, loss_sum, ctx_.stream());
  if (nll) AccumulateSum(nll, nll_sum, ctx_.stream());
  return {.tokens = tokens};
}

}  // namespace dtrain
