// clip_test.cc - the global norm, the factor that follows, and gradients that are no numbers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include "testing/catch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

// A matrix and a bias with these gradients.
struct Model {
  explicit Model(const std::vector<float>& matrix, const std::vector<float>& bias) {
    const Scope scope(parameters, "layer");
    Parameter& w = scope.Add("weight", {2, 2}, Initializer::Constant(0.0f));
    Parameter& b = scope.Add("bias", {2}, Initializer::Constant(0.0f));
    parameters.Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
    testing::SetElements(matrix, w.gradient());
    testing::SetElements(bias, b.gradient());
  }
  ParameterSet parameters;
  Stream stream{testing::TestDevice()};
};

TEST_CASE("a gradient within the norm keeps its scale, a longer one is brought to it") {
  Model model({1.0f, -2.0f, 4.0f, 0.0f}, {0.0f, 2.0f});  // norm 5
  const ClippedGradients whole = ClipGradients(model.parameters, 0.1, 1.0, model.stream);
  CHECK(whole.norm == Approx(0.5));
  CHECK(whole.gradient_scale == 0.1f);
  CHECK(whole.is_finite);
  const ClippedGradients cut = ClipGradients(model.parameters, 1.0, 2.0, model.stream);
  CHECK(cut.norm == Approx(5.0));
  CHECK(cut.gradient_scale == Approx(0.4f));
  CHECK(ClipGradients(model.parameters, 1.0, 0.0, model.stream).gradient_scale == 1.0f);
}

TEST_CASE("a gradient that is NaN or infinite is told, whatever the limit") {
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Model model({1.0f, broken, 0.0f, 0.0f}, {0.0f, 0.0f});
    CHECK_FALSE(ClipGradients(model.parameters, 1.0, 1.0, model.stream).is_finite);
    CHECK_FALSE(ClipGradients(model.parameters, 1.0, 0.0, model.stream).is_finite);
  }
  Model zeros({0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f});
  const ClippedGradients none = ClipGradients(zeros.parameters, 1.0, 1.0, zeros.stream);
  CHECK(none.is_finite);
  CHECK(none.gradient_scale == 1.0f);
  // An update without a token.
  const double no_tokens = 0.0;
  CHECK_FALSE(ClipGradients(zeros.parameters, 1.0 / no_tokens, 1.0, zeros.stream).is_finite);
  CHECK_FALSE(ClipGradients(zeros.parameters, 1e300, 1.0, zeros.stream).is_finite);
}

}  // namespace
}  // namespace dtrain
