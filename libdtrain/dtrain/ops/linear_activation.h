// linear_activation.h - a linear layer with the activation after it, as one op each way.
// SPDX-License-Identifier: Apache-2.0
//
// On a GPU the product's own kernel may add the bias, apply the activation and sum the bias
// gradient, where the plan of the product says so (ops/gemm_tuning.h): relu and gelu_tanh without
// dropout. Otherwise, and on CPUs, these are a product and an op of bias_activation.h.
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
  // The caller computes `after` a second time by RepeatActivation(), which must give the same bits:
  // no fused kernel then.
  bool repeats = false;
};

// What backward needs of forward. The caller gives the tensors, forward fills them.
struct LinearActivationSaved {
  Tensor before;  // [rows, out], x's type: the activation's input; absent for relu, and without a
                  // backward to come
  Tensor mask;    // [rows, ActivationMaskBytes()], uint8; absent where that is 0
  Tensor after;   // [rows, out], x's type: the result
  // Set by forward: `before` has the bias in it; `mask` says where relu passed.
  bool is_biased = false;
  bool is_masked = false;
};

// Columns of LinearActivationSaved::mask on a device, for this thread's plans.
int64_t ActivationMaskBytes(const LinearActivationOptions& options, int64_t out, DType dtype,
                            const Device& device);

// saved.after = dropout(activation(x weight^T + bias)). x: [rows, in], weight: [out, in], bias:
// [out], all of one type.
void LinearActivationForward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const LinearActivationOptions& options, LinearActivationSaved& saved,
                             Stream& stream);

// saved.after again, from saved.before.
void RepeatActivation(const Tensor& bias, const LinearActivationOptions& options,
                      LinearActivationSaved& saved, Stream& stream);

// The way back from a layer that took `after` by next_weight: [next, out]. d_before =
// dropout(dy next_weight) activation'(...), the gradient of x weight^T + bias; d_bias, [out],
// float32, accumulates its column sums. dy: [rows, next]; d_before: [rows, out], not dy's memory.
void LinearActivationBackward(const Tensor& dy, const Tensor& next_weight, const Tensor& bias,
                              const LinearActivationOptions& options,
                              const LinearActivationSaved& saved, Tensor& d_before, Tensor& d_bias,
                              Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_LINEAR_ACTIVATION_H_
