// clip.cc - one pass over the gradients, and the resulting factor.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/clip.h"

#include <cmath>

#include "dtrain/base/check.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {

ClippedGradients ClipGradients(ParameterSet& parameters, double gradient_scale, double max_norm,
                               Stream& stream) {
  parameters.CheckAllocated();
  DT_CHECK_GE(max_norm, 0.0);
  Tensor sums = NewTensor({2}, DType::kFloat64, stream.device());
  SumOfSquares(parameters.gradients(), sums, stream);
  const Tensor on_host = ToHost(sums, stream);
  const double squares = on_host.data<double>()[0];
  const double broken = on_host.data<double>()[1];
  ClippedGradients clipped{.norm = std::sqrt(squares) * std::abs(gradient_scale)};
  const bool is_long = max_norm > 0.0 && clipped.norm > max_norm;
  clipped.gradient_scale =
      static_cast<float>(is_long ? gradient_scale * (max_norm / clipped.norm) : gradient_scale);
  // For a mean over no tokens the scale is 1 / 0. A finite scale may also be too large for a float.
  clipped.is_finite =
      broken == 0.0 && std::isfinite(clipped.norm) && std::isfinite(clipped.gradient_scale);
  return clipped;
}

}  // namespace dtrain
