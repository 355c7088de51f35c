// bias_activation.h - the middle of a feed-forward block: bias, activation and dropout.
// SPDX-License-Identifier: Apache-2.0
//
// relu(x) = max(x, 0); gelu_erf(x) = x Phi(x); gelu_tanh(x) = x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715
// x^3))) (Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2).
#ifndef DTRAIN_OPS_BIAS_ACTIVATION_H_
#define DTRAIN_OPS_BIAS_ACTIVATION_H_

#include <string_view>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

enum class Activation { kRelu, kGeluErf, kGeluTanh, kTanh };
// "gelu_erf".
std::string_view Name(Activation activation);

// y = dropout(activation(x + bias)). x, y: [rows, columns] of one type, y may be x; bias:
// [columns], that type, or absent.
void BiasActivationForward(const Tensor& x, const Tensor& bias, Activation activation,
                           const Dropout& dropout, Tensor& y, Stream& stream);

// dx from dy (may be the same tensor) and the forward's x and bias; d_bias: [columns], float32,
// accumulated into, or absent.
void BiasActivationBackward(const Tensor& dy, const Tensor& x, const Tensor& bias,
                            Activation activation, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream);

// The same for relu from the forward's output y instead of its input, which need not be kept: an
// element passes where y is not 0.
void ReluBackwardFromOutput(const Tensor& dy, const Tensor& y, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_BIAS_ACTIVATION_H_
