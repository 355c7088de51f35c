// classification_loss.h - losses of a few outputs per row, with their gradients and predictions.
// SPDX-License-Identifier: Apache-2.0
//
// A row has logits z, targets y and a weight w; the outputs have weights v:
//   kSoftmax      loss = -v_y log p_y, p = softmax(z), y the index of a class
//   kMeanSquared  loss = mean_c v_c (z_c - y_c)^2, p = z
//   kSigmoid      loss = mean_c v_c (log(1 + exp(z_c)) - y_c z_c), p = sigmoid(z), y_c in [0, 1]
// These are CrossEntropyLoss, MSELoss and BCEWithLogitsLoss of torch.nn for one row. A negative
// class, or a target that is NaN, means that the label is unknown: its loss and gradient are 0.
#ifndef DTRAIN_OPS_CLASSIFICATION_LOSS_H_
#define DTRAIN_OPS_CLASSIFICATION_LOSS_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

enum class ClassificationLossKind { kSoftmax, kMeanSquared, kSigmoid };

// All tensors are float32 and contiguous.
struct ClassificationLossInputs {
  Tensor logits = {};          // [rows, outputs]
  Tensor targets = {};         // [rows, 1] for kSoftmax, else [rows, outputs]
  Tensor weights = {};         // [rows], or absent for 1
  Tensor output_weights = {};  // [outputs], or absent for 1
};

struct ClassificationLossOutputs {
  Tensor loss = {};           // [rows]: w * loss
  Tensor unweighted = {};     // [rows]: the loss with w = v = 1
  Tensor probabilities = {};  // [rows, outputs]: p, or absent
  Tensor d_logits = {};       // [rows, outputs]: scale * gradient of w * loss; may be absent
};

// scale: [1], float32. Either probabilities or d_logits may be the same tensor as the logits, but
// not both.
void ClassificationLoss(ClassificationLossKind kind, const ClassificationLossInputs& inputs,
                        const Tensor& scale, ClassificationLossOutputs& outputs, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CLASSIFICATION_LOSS_H_
