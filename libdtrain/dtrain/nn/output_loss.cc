// output_loss.cc - splits the rows so that the logits stay in the last-level cache.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/output_loss.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/nn/internal/product_gradient.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

// Number of elements of a slice of logits. On the CPU it takes 8 MiB in float32: this fits a host's
// caches, and has enough rows for the products to run at full speed. On a GPU it takes 512 MiB, for
// few large products.
constexpr int64_t kCpuSliceElements = int64_t{1} << 21;
constexpr int64_t kCudaSliceElements = int64_t{1} << 27;
constexpr int64_t kMinSliceRows = 128;

}  // namespace

int64_t OutputLoss::SliceRows(int64_t classes, DeviceType device) {
  const bool on_cpu = device == DeviceType::kCpu;
  return std::max((on_cpu ? kCpuSliceElements : kCudaSliceElements) / classes, kMinSliceRows);
}

// On a GPU the logits are the largest tensor, and reading and writing them takes most of the loss's
// time. In mixed precision they and their gradient, which overwrites them, therefore have 2 bytes.
// Softmax is computed in float32 in any case.
DType OutputLoss::LogitsType(DType compute_type, DeviceType device) {
  return device == DeviceType::kCpu ? DType::kFloat32 : compute_type;
}

LossSums OutputLoss::Forward(const Tensor& hidden, const Tensor& targets, Tensor& predictions,
                             Context& ctx, Tensor* nlls) {
  const int64_t tokens = hidden.dim(0);
  const int64_t classes = weight_.shape()[0];
  DT_CHECK_EQ(targets.dim(0), tokens);
  const int64_t slice = SliceRows(classes, ctx.device().type);
  const Tensor loss = ctx.Empty({tokens}, DType::kFloat32);
  const Tensor nll = ctx.Empty({tokens}, DType::kFloat32);
  LossAccount account(ctx);
  if (ctx.training()) d_hidden_ = ctx.Empty(hidden.shape());
  for (int64_t begin = 0; begin < tokens; begin += slice) {
    const int64_t end = std::min(begin + slice, tokens);
    const Tensor rows = hidden.Rows(begin, end);
    const Tensor row_targets = targets.Rows(begin, end);
    Tensor logits = LogitsIn(LogitsType(ctx.compute_type(), ctx.device().type), rows, ctx);
    Tensor row_loss = loss.Rows(begin, end);
    Tensor row_nll = nll.Rows(begin, end);
    Tensor log_sum_exp = ctx.Empty({end - begin}, DType::kFloat32);
    CrossEntropyForward(logits, row_targets, {options_.label_smoothing}, row_loss, row_nll,
                        log_sum_exp, ctx.stream());
    if (predictions) {
      Tensor row_predictions = predictions.Rows(begin, end);
      ArgMax(logits, row_predictions, ctx.stream());
    }
    if (!ctx.training()) continue;
    const Tensor d_logits = SliceGradient(logits, row_targets, log_sum_exp, account.scale(), ctx);
    Tensor d_rows = d_hidden_.Rows(begin, end);
    Gemm(d_logits, weight_.value(), {}, d_rows, ctx.stream());
    if (!weight_.is_frozen()) {
      internal::AddProductGradient(d_logits, rows, weight_, ctx.stream());
    }
    if (bias_ != nullptr && options_.trains_bias) {
      AccumulateColumnSums(d_logits, bias_->gradient(), ctx.stream());
    }
  }
  if (nlls != nullptr) *nlls = nll;
  return account.Add(loss, nll, tokens);
}

Tensor OutputLoss::SliceGradient(Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                                 const Tensor& scale, Context& ctx) const {
  CrossEntropyBackward(logits, targets, log_sum_exp, {options_.label_smoothing}, scale, logits,
                       ctx.stream());
  if (logits.dtype() == ctx.compute_type()) return logits;
  Tensor narrow = ctx.Empty(logits.shape());
  Cast(logits, narrow, ctx.stream());
  return narrow;
}

Tensor OutputLoss::Backward() {
  DT_CHECK(d_hidden_) << "Backward() without Forward()";
  return std::exchange(d_hidden_, Tensor());
}

Tensor OutputLoss::Logits(const Tensor& hidden, Context& ctx) const {
  return LogitsIn(DType::kFloat32, hidden, ctx);
}

Tensor OutputLoss::LogitsIn(DType dtype, const Tensor& hidden, Context& ctx) const {
  Tensor logits = ctx.Empty({hidden.dim(0), weight_.shape()[0]}, dtype);
  Gemm(hidden, weight_.value(), {.transpose_b = true}, logits, ctx.stream());
  if (bias_ != nullptr) {
    const Tensor& bias = dtype == DType::kFloat32 ? bias_->master() : bias_->value();
    DropoutResidualForward(logits, bias, Tensor(), {}, logits, ctx.stream());
  }
  return logits;
}

}  // namespace dtrain
