// activation.h - the activations of ops/bias_activation.h in double.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_ACTIVATION_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_ACTIVATION_H_

#include <cmath>
#include <numbers>

#include "dtrain/ops/bias_activation.h"

namespace dtrain::reference {

inline double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return x > 0.0 ? x : 0.0;
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSwish:
      return x / (1.0 + std::exp(-x));
  }
  return 0.0;
}

// By central differences; relu's is exact away from 0.
inline double ActivateDerivative(Activation activation, double x) {
  if (activation == Activation::kRelu) return x > 0.0 ? 1.0 : 0.0;
  constexpr double kStep = 1e-4;
  return (Activate(activation, x + kStep) - Activate(activation, x - kStep)) / (2.0 * kStep);
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_ACTIVATION_H_
