// span_loss.h - cross-entropy of a position in each sequence, used for answers' starts and ends.
// SPDX-License-Identifier: Apache-2.0
//
// An answer has two sides, its start and its end. Each side has a score z for every token. For a
// side and a sequence
//   p = softmax(z over the sequence's tokens),  loss = -log p[target] / sides
// The sum over the sides is then their mean, as in BertForQuestionAnswering (Devlin et al. 2019,
// "BERT", section 4.2). Scores are stored as [sides, tokens], so each softmax reads one contiguous
// range.
#ifndef DTRAIN_OPS_SPAN_LOSS_H_
#define DTRAIN_OPS_SPAN_LOSS_H_

#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct SpanLossOutputs {
  Tensor loss = {};      // [sides, sequences], float32
  Tensor d_logits = {};  // [sides, tokens], float32: scale * gradient; may be absent, may be the
                         // logits
};

// logits: [sides, tokens], float32. targets: [sides, sequences], int32: the index of a token within
// its sequence; a negative target has loss 0. scale: [1], float32. All are contiguous, and no
// sequence is empty.
void SpanLoss(const Tensor& logits, const Tensor& targets, const Sequences& sequences,
              const Tensor& scale, SpanLossOutputs& outputs, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_SPAN_LOSS_H_
