// cross_entropy.h - label-smoothed cross-entropy, with the gradient in the logits' place.
// SPDX-License-Identifier: Apache-2.0
//
// With p = softmax(logits), V classes and smoothing e, row t with target y costs
//   loss = -sum_c q_c log p_c,  q_c = (1 - e) [c == y] + e / V          (Szegedy et al. 2016,
//   section 7)
// as torch.nn.functional.cross_entropy does, and its gradient is p_c - q_c.
#ifndef DTRAIN_OPS_CROSS_ENTROPY_H_
#define DTRAIN_OPS_CROSS_ENTROPY_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct CrossEntropyOptions {
  float label_smoothing = 0.0f;  // in [0, 1)
};

// logits: [rows, classes]; targets: [rows], int32, a negative one costs nothing; loss: [rows],
// float32, smoothed; nll: [rows], float32, -log p[target]; log_sum_exp: [rows], float32.
void CrossEntropyForward(const Tensor& logits, const Tensor& targets,
                         const CrossEntropyOptions& options, Tensor& loss, Tensor& nll,
                         Tensor& log_sum_exp, Stream& stream);

// d_logits = scale * (p - q), zero where the target is negative; d_logits may be logits.
// scale: [1], float32.
void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                          const CrossEntropyOptions& options, const Tensor& scale, Tensor& d_logits,
                          Stream& stream);

// log p of every class: out[t, c] = logits[t, c] - log sum exp(logits[t]), float32; out may be
// logits.
void LogSoftmax(const Tensor& logits, Tensor& out, Stream& stream);

// ids: [rows], int32: the column of the largest logit, the first of equals.
void ArgMax(const Tensor& logits, Tensor& ids, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CROSS_ENTROPY_H_
