// linear_activation.h - a linear layer followed by an activation, as one op for each direction.
// SPDX-License-Identifier: Apache-2.0
//
// On a GPU the product's own kernel can add the bias, apply the activation and sum the bias
// gradient, if the product's plan says so (ops/gemm_tuning.h). This works for relu and gelu_tanh
// without dropout. Otherwise, and on CPUs, the op runs a product and an op of bias_activation.h.
#ifndef DTRAIN_OPS_LINEAR_ACTIVATION_H_
#define DTRAIN_OPS_LINEAR_ACTIVATION_H_

#include <cstdint>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/bias_activation.h"

namespace dtrain {

struct LinearActivationOptions {
  Activation activation = Activation::kRelu;
  Dropout dropout = {};
  // True if the caller will compute `after` again with RepeatActivation(), which must give the same
  // bits. No fused kernel is used then.
  bool repeats = false;
};

// The tensors that backward needs from forward. The caller allocates them, forward fills them.
struct LinearActivationSaved {
  Tensor before;  // [rows, out], x's type: the activation's input. Absent for relu, and if there
                  // will be no backward.
  Tensor mask;    // [rows, ActivationMaskBytes()], uint8; absent if that is 0
  Tensor after;   // [rows, out], x's type: the result
  // Set by forward. is_biased: `before` includes the bias. is_masked: `mask` has a bit for each
  // element that relu passed.
  bool is_biased = false;
  bool is_masked = false;
};

// Number of columns of LinearActivationSaved::mask on a device, with this thread's plans.
int64_t ActivationMaskBytes(const LinearActivationOptions& options, int64_t out, DType dtype,
                            const Device& device);

// saved.after = dropout(activation(x weight^T + bias)). x: [rows, in], weight: [out, in], bias:
// [out] or absent, all of one type.
void LinearActivationForward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const LinearActivationOptions& options, LinearActivationSaved& saved,
                             Stream& stream);

// Computes saved.after again from saved.before.
void RepeatActivation(const Tensor& bias, const LinearActivationOptions& options,
                      LinearActivationSaved& saved, Stream& stream);

// Backward from the next layer, whose input was `after` and whose weight is next_weight: [next,
// out]. d_before = dropout(dy next_weight) activation'(...) is the gradient of x weight^T + bias.
// d_bias: [out], float32, or absent like the bias, accumulates its column sums. dy: [rows, next];
// d_before: [rows, out], must not share memory with dy.
void LinearActivationBackward(const Tensor& dy, const Tensor& next_weight, const Tensor& bias,
                              const LinearActivationOptions& options,
                              const LinearActivationSaved& saved, Tensor& d_before, Tensor& d_bias,
                              Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_LINEAR_ACTIVATION_H_
