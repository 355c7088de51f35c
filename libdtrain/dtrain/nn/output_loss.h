// output_loss.h - the output projection and its cross-entropy, a slice of rows at a time.
// SPDX-License-Identifier: Apache-2.0
//
// Logits of a whole batch would be its largest tensor ([tokens, vocabulary]). Here a slice of rows
// is projected, its loss and gradient are taken in place, and the slice's memory serves the next
// one: what remains is the gradient of the hidden states. So forward already does the products of
// backward.
#ifndef DTRAIN_NN_OUTPUT_LOSS_H_
#define DTRAIN_NN_OUTPUT_LOSS_H_

#include <cstdint>

#include "dtrain/nn/context.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/cross_entropy.h"

namespace dtrain {

class OutputLoss {
 public:
  // weight: [vocab, hidden], perhaps shared with the embeddings; bias: [vocab], or null for none.
  // Both are their owner's to report ready.
  OutputLoss(Parameter& weight, const CrossEntropyOptions& options, Parameter* bias = nullptr)
      : weight_(weight), bias_(bias), options_(options) {}

  // hidden: [tokens, hidden]; targets: [tokens], int32. While training also accumulates the
  // gradients of weight and bias of the sum of the loss and keeps that of hidden. A negative target
  // costs nothing, but `tokens` of the result counts all rows: who has such targets sets it to the
  // number of the others, by which losses and gradients are divided. `predictions`: [tokens],
  // int32, receives the best class of each row, or is absent. A trainer's scale and sums:
  // nn/loss_sums.h.
  LossSums Forward(const Tensor& hidden, const Tensor& targets, Tensor& predictions, Context& ctx);
  // The gradient of hidden.
  Tensor Backward();
  // Rows of hidden that are projected at once.
  static int64_t SliceRows(int64_t classes, DeviceType device);
  // Of the logits of those rows while their loss is taken.
  static DType LogitsType(DType compute_type, DeviceType device);
  // Logits of a few rows, float32, for decoding.
  Tensor Logits(const Tensor& hidden, Context& ctx) const;

 private:
  Tensor LogitsIn(DType dtype, const Tensor& hidden, Context& ctx) const;
  // In the compute type, d_logits = scale * (p - q) of one slice.
  Tensor SliceGradient(Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                       const Tensor& scale, Context& ctx) const;

  Parameter& weight_;
  Parameter* bias_;
  CrossEntropyOptions options_;
  Tensor d_hidden_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_OUTPUT_LOSS_H_
