// product_gradient.h - the gradient of one matrix as a product, overwritten or added to.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_INTERNAL_PRODUCT_GRADIENT_H_
#define DTRAIN_NN_INTERNAL_PRODUCT_GRADIENT_H_

#include "dtrain/nn/parameter.h"
#include "dtrain/ops/gemm.h"

namespace dtrain::internal {

// The gradient of `matrix` += a^T b. `matrix` has MarkProductGradient().
inline void AddProductGradient(const Tensor& a, const Tensor& b, Parameter& matrix,
                               Stream& stream) {
  Parameter* const parameter = &matrix;
  ProductGradient product = Parameter::TakeProductGradient({&parameter, 1}, matrix.shape());
  Gemm(a, b, {.transpose_a = true, .accumulate = product.accumulate}, product.gradient, stream);
}

}  // namespace dtrain::internal

#endif  // DTRAIN_NN_INTERNAL_PRODUCT_GRADIENT_H_
