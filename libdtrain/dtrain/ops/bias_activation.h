// bias_activation.h - the middle of a feed-forward block: bias, activation and dropout.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_BIAS_ACTIVATION_H_
#define DTRAIN_OPS_BIAS_ACTIVATION_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/activation.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

// y = dropout(activation(x + bias)). x, y: [rows, columns] of one type, and y may be x. bias:
// [columns] of the same type, or absent.
void BiasActivationForward(const Tensor& x, const Tensor& bias, Activation activation,
                           const Dropout& dropout, Tensor& y, Stream& stream);

// Computes dx from dy and from the forward's x and bias. dx may be dy. d_bias: [columns], float32,
// is accumulated into; may be absent.
void BiasActivationBackward(const Tensor& dy, const Tensor& x, const Tensor& bias,
                            Activation activation, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream);

// The backward of relu from the forward's output y, so that its input need not be kept. A gradient
// passes where y is not 0.
void ReluBackwardFromOutput(const Tensor& dy, const Tensor& y, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_BIAS_ACTIVATION_H_
