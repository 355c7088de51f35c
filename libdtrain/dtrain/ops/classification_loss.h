// classification_loss.h - losses of a few outputs per row, with their gradients and predictions.
// SPDX-License-Identifier: Apache-2.0
//
// A row has logits z and targets y, a weight w, and the outputs weights v:
//   kSoftmax      loss = -v_y log p_y, p = softmax(z), y the index of a class
//   kMeanSquared  loss = mean_c v_c (z_c - y_c)^2, p = z
//   kSigmoid      loss = mean_c v_c (log(1 + exp(z_c)) - y_c z_c), p = sigmoid(z), y_c in [0, 1]
// as torch.nn's CrossEntropyLoss, MSELoss and BCEWithLogitsLoss of one row. A negative class and a
// target that is NaN cost nothing: that label is not known.
#ifndef DTRAIN_OPS_CLASSIFICATION_LOSS_H_
#define DTRAIN_OPS_CLASSIFICATION_LOSS_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

enum class ClassificationLossKind { kSoftmax, kMeanSquared, kSigmoid };

// All float32 and contiguous.
struct ClassificationLossInputs {
  Tensor logits = {};          // [rows, outputs]
  Tensor targets = {};         // [rows, 1] for kSoftmax, else [rows, outputs]
  Tensor weights = {};         // [rows], or absent: 1
  Tensor output_weights = {};  // [outputs], or absent: 1
};

struct ClassificationLossOutputs {
  Tensor loss = {};           // [rows]: w * loss
  Tensor unweighted = {};     // [rows]: the loss with w = v = 1
  Tensor probabilities = {};  // [rows, outputs]: p, or absent
  Tensor d_logits = {};       // [rows, outputs]: scale * gradient of w * loss, or absent
};

// scale: [1], float32. probabilities and d_logits may be the logits, not both.
void ClassificationLoss(ClassificationLossKind kind, const ClassificationLossInputs& inputs,
                        const Tensor& scale, ClassificationLossOutputs& outputs, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CLASSIFICATION_LOSS_H_
