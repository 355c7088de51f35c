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
#include "dtrain/tensor/tensor.h"

namespace dtrain {

struct AdamOptions {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float l2 = 0.0f;                // added to the gradient as l2 * w before the moments
  float weight_decay = 0.0f;      // decoupled
  float bias_correction1 = 1.0f;  // 1 - beta1^t; 1 leaves the first moment uncorrected
  float bias_correction2 = 1.0f;  // 1 - beta2^t
};

// weights, gradients, m, v: [n], float32, contiguous. gradient_scale: [1], float32, multiplies the
// gradients first (unscaling and clipping). copy: [n] in the compute type receives the new weights,
// or absent.
void AdamUpdate(const Tensor& gradients, const Tensor& gradient_scale, const AdamOptions& options,
                Tensor& weights, Tensor& m, Tensor& v, Tensor& copy, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ADAM_H_
