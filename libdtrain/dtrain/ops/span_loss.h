// span_loss.h - cross-entropy of a place in each sequence, as answers to questions have two.
// SPDX-License-Identifier: Apache-2.0
//
// Each side (the answer's start, its end) has a score z of every token. Of a side and a sequence
//   p = softmax(z over the sequence's tokens),  loss = -log p[target] / sides
// so that the sum over sides is the mean of both, as BertForQuestionAnswering has it (Devlin et al.
// 2019, "BERT", section 4.2). The scores lie side by side, [sides, tokens], where each softmax is
// one stretch of memory.
#ifndef DTRAIN_OPS_SPAN_LOSS_H_
#define DTRAIN_OPS_SPAN_LOSS_H_

#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct SpanLossOutputs {
  Tensor loss = {};      // [sides, sequences], float32
  Tensor d_logits = {};  // [sides, tokens], float32: scale * gradient, or absent; may be the logits
};

// logits: [sides, tokens], float32. targets: [sides, sequences], int32: a token of the sequence,
// counted from its first; one that is negative costs nothing. scale: [1], float32. All contiguous;
// no sequence is empty.
void SpanLoss(const Tensor& logits, const Tensor& targets, const Sequences& sequences,
              const Tensor& scale, SpanLossOutputs& outputs, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_SPAN_LOSS_H_
