// dropout_residual.h - the end of a sublayer: bias, dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_DROPOUT_RESIDUAL_H_
#define DTRAIN_OPS_DROPOUT_RESIDUAL_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

// out = residual + dropout(x + bias). x, residual, out: [rows, hidden] of one type. out may be x or
// residual; residual may be absent (0). bias: [hidden] of the same type, or absent.
void DropoutResidualForward(const Tensor& x, const Tensor& bias, const Tensor& residual,
                            const Dropout& dropout, Tensor& out, Stream& stream);

// dx = dropout's gradient of d_out; dx may be d_out. d_bias: [hidden], float32, is accumulated
// into; may be absent. The residual's gradient is d_out itself.
void DropoutResidualBackward(const Tensor& d_out, const Dropout& dropout, Tensor& dx,
                             Tensor& d_bias, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_DROPOUT_RESIDUAL_H_
