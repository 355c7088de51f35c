// cross_entropy.h - label-smoothed cross-entropy; its gradient may overwrite the logits.
// SPDX-License-Identifier: Apache-2.0
//
// With p = softmax(logits), V classes and smoothing e, a row with target y has the loss
//   loss = -sum_c q_c log p_c,  q_c = (1 - e) [c == y] + e / V
// (Szegedy et al. 2016, section 7), like torch.nn.functional.cross_entropy. Its gradient is p_c -
// q_c.
#ifndef DTRAIN_OPS_CROSS_ENTROPY_H_
#define DTRAIN_OPS_CROSS_ENTROPY_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct CrossEntropyOptions {
  float label_smoothing = 0.0f;  // in [0, 1)
};

// logits: [rows, classes]; targets: [rows], int32; loss: [rows], float32, with smoothing; nll:
// [rows], float32, -log p[target]; log_sum_exp: [rows], float32. A row with a negative target has
// loss 0.
void CrossEntropyForward(const Tensor& logits, const Tensor& targets,
                         const CrossEntropyOptions& options, Tensor& loss, Tensor& nll,
                         Tensor& log_sum_exp, Stream& stream);

// d_logits = scale * (p - q), or zero for a negative target. d_logits may be logits. scale: [1],
// float32.
void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                          const CrossEntropyOptions& options, const Tensor& scale, Tensor& d_logits,
                          Stream& stream);

// log p of every class: out[t, c] = logits[t, c] - log sum exp(logits[t]), float32. out may be
// logits.
void LogSoftmax(const Tensor& logits, Tensor& out, Stream& stream);

// ids: [rows], int32: the column of the largest logit, the first one if several are equal.
void ArgMax(const Tensor& logits, Tensor& ids, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CROSS_ENTROPY_H_
