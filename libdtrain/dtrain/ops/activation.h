// activation.h - the activation functions of feed-forward blocks.
// SPDX-License-Identifier: Apache-2.0
//
//   std::printf("%s\n", std::string(Name(Activation::kGeluErf)).c_str());  // gelu_erf
#ifndef DTRAIN_OPS_ACTIVATION_H_
#define DTRAIN_OPS_ACTIVATION_H_

#include <string_view>

namespace dtrain {

// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2, has both forms of GELU.
// Ramachandran et al., "Searching for Activation Functions" (2017), equation 1, has swish.
enum class Activation {
  kRelu,      // max(x, 0)
  kGeluErf,   // x Phi(x)
  kGeluTanh,  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kTanh,
  kSwish  // x / (1 + exp(-x)), also called SiLU
};
// For example "gelu_erf".
std::string_view Name(Activation activation);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ACTIVATION_H_
