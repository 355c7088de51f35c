// output_loss.h - the output projection and its cross-entropy, one slice of rows at a time.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   Parameter& weight =
//       Scope(parameters, "model").Add("lm_head", {100, 64}, Initializer::Normal(0.1f));
//   OutputLoss loss(weight, {.label_smoothing = 0.1f});
//   parameters.Allocate(ctx.device(), ctx.compute_type(), /*seed=*/1);
//   const std::vector<int32_t> targets = {7, 1, 2};
//   Tensor predictions = ctx.Empty({3}, DType::kInt32);
//   const LossSums sums =
//       loss.Forward(ctx.Empty({3, 64}), ctx.Upload(targets), predictions, ctx);
//
// The logits of a whole batch, [tokens, vocabulary], would be its largest tensor. Instead a slice
// of rows is projected, its loss and gradient are computed in place, and the next slice reuses the
// memory. Only the gradient of the hidden states is kept. So Forward already computes the products
// of backward.
#ifndef DTRAIN_NN_OUTPUT_LOSS_H_
#define DTRAIN_NN_OUTPUT_LOSS_H_

#include <cstdint>

#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

// Options of the loss.
struct OutputLossOptions {
  float label_smoothing = 0.0f;  // in [0, 1): Szegedy et al. 2016, section 7
  bool trains_bias = true;       // false: the bias gets no gradient and stays as it is
};

// logits = hidden W^T + bias, and the sum of the cross-entropies of their rows. With p =
// softmax(logits) and V classes, a row with target y has the loss -sum_c q_c log p_c, q_c = (1 - e)
// [c == y] + e / V.
class OutputLoss {
 public:
  // weight: [vocab, hidden], possibly shared with the embeddings; bias: [vocab], or null for none.
  // Their owner must report their gradients ready.
  OutputLoss(Parameter& weight, const OutputLossOptions& options, Parameter* bias = nullptr)
      : weight_(weight), bias_(bias), options_(options) {
    weight_.MarkProductGradient();
  }

  // hidden: [tokens, hidden]; targets: [tokens], int32. While training it also accumulates the
  // gradients of weight and bias and keeps that of hidden. These are gradients of the summed loss.
  // A negative target has loss 0, but the result's `tokens` counts all rows. If there are such
  // targets, the caller must set `tokens` to the number of the other rows, because losses and
  // gradients are divided by it. `predictions`: [tokens], int32, receives the best class of each
  // row; may be absent. `nlls`, unless null, becomes the cross-entropy of each row, [tokens],
  // float32. For a trainer's scale and sums see nn/loss_sums.h.
  LossSums Forward(const Tensor& hidden, const Tensor& targets, Tensor& predictions, Context& ctx,
                   Tensor* nlls = nullptr);
  // Returns the gradient of hidden.
  Tensor Backward();
  // Number of rows of hidden that are projected at once.
  static int64_t SliceRows(int64_t classes, DeviceType device);
  // The type of the logits during training.
  static DType LogitsType(DType compute_type, DeviceType device);
  // The logits of a few rows, float32, for decoding.
  Tensor Logits(const Tensor& hidden, Context& ctx) const;

 private:
  Tensor LogitsIn(DType dtype, const Tensor& hidden, Context& ctx) const;
  // Computes d_logits = scale * (p - q) for one slice, in the compute type.
  Tensor SliceGradient(Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                       const Tensor& scale, Context& ctx) const;

  Parameter& weight_;
  Parameter* bias_;
  OutputLossOptions options_;
  Tensor d_hidden_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_OUTPUT_LOSS_H_
