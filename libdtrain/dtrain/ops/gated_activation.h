// gated_activation.h - the middle of a gated feed-forward block: one half gates the other.
// SPDX-License-Identifier: Apache-2.0
//
// Shazeer, "GLU Variants Improve Transformer" (2020), section 2, on the output x of one projection
// with two halves of columns, x = (a, g):
//   y = dropout(A(a) g)
// With A = gelu this is GeGLU, with A = swish SwiGLU.
#ifndef DTRAIN_OPS_GATED_ACTIVATION_H_
#define DTRAIN_OPS_GATED_ACTIVATION_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/activation.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

// x: [rows, 2 * columns], y: [rows, columns], of one type; they share no memory.
void GatedActivationForward(const Tensor& x, Activation activation, const Dropout& dropout,
                            Tensor& y, Stream& stream);

// Computes dx: [rows, 2 * columns] from dy: [rows, columns] and from the forward's x. dx may be x.
void GatedActivationBackward(const Tensor& dy, const Tensor& x, Activation activation,
                             const Dropout& dropout, Tensor& dx, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_GATED_ACTIVATION_H_
