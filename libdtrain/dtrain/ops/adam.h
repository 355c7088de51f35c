// adam.h - one Adam or AdamW update of a flat range of parameters.
// SPDX-License-Identifier: Apache-2.0
//
// Kingma and Ba, "Adam" (2015), algorithm 1; Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization" (2019), algorithm 2 line 12:
//   g = gradient_scale * gradient + l2 w
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w -= lr ( (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w )
#ifndef DTRAIN_OPS_ADAM_H_
#define DTRAIN_OPS_ADAM_H_

#include <cstdint>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct AdamOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float l2 = 0.0f;            // L2 regularisation: l2 * w is added to the gradient before the
                              // moments
  float weight_decay = 0.0f;  // decoupled weight decay (AdamW)
};

// The values that change from update to update. They are stored in device memory, so that the
// device itself can compute them (for example whether the gradients are finite, and their norm).
struct AdamStep {
  float learning_rate = 1e-3f;
  float gradient_scale = 1.0f;    // multiplies the gradients first, for unscaling and clipping
  float bias_correction1 = 1.0f;  // 1 - beta1^t; 1 leaves the first moment uncorrected
  float bias_correction2 = 1.0f;  // 1 - beta2^t
  float skip = 0.0f;              // if not 0, the update changes nothing

  static constexpr int64_t kValues = 5;
};

// weights, gradients, m, v: [n], float32, contiguous. step: [AdamStep::kValues], float32, the
// values of an AdamStep. copy: [n] in the compute type, receives the new weights; may be absent.
void AdamUpdate(const Tensor& gradients, const Tensor& step, const AdamOptions& options,
                Tensor& weights, Tensor& m, Tensor& v, Tensor& copy, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ADAM_H_
