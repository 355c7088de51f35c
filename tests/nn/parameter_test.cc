// parameter_test.cc - what parameters start with: bounds, deviations, and each its own numbers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/parameter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using testing::Values;
using testing::ValuesOf;

constexpr int64_t kRows = 400;
constexpr int64_t kColumns = 200;

// The first values of a matrix of this name, which is not alone in its model.
Values FirstValues(const Initializer& initializer, const std::string& name = "weight",
                   uint64_t seed = 3) {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  scope.Add("before", {5, 7}, Initializer::Normal(1.0f));
  const Parameter& parameter = scope.Add(name, {kRows, kColumns}, initializer);
  parameters.Allocate({}, DType::kFloat32, seed);
  return ValuesOf(parameter.value());
}

double MeanOf(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double DeviationOf(const Values& values) {
  const double mean = MeanOf(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

double LargestOf(const Values& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return std::max(-*least, *most);
}

TEST_CASE("uniform weights fill their range evenly up to the bound") {
  Initializer uniform{.kind = Initializer::Kind::kUniform, .value = 0.7f};
  // Glorot and Bengio 2010, equation 16.
  const double xavier = std::sqrt(6.0 / (kRows + kColumns));
  for (const auto& [initializer, bound] :
       {std::pair(Initializer::XavierUniform(), xavier), std::pair(uniform, 0.7)}) {
    INFO("bound " << bound);
    const Values values = FirstValues(initializer);
    CHECK(LargestOf(values) <= bound * (1.0 + 1e-6));
    CHECK(LargestOf(values) > 0.999 * bound);
    CHECK(std::abs(MeanOf(values)) < 0.01 * bound);
    CHECK(DeviationOf(values) == Approx(bound / std::sqrt(3.0)).epsilon(0.01));
  }
}

TEST_CASE("normal weights have their deviation") {
  const Values values = FirstValues(Initializer::Normal(0.02f));
  CHECK(std::abs(MeanOf(values)) < 0.02 * 0.02);
  CHECK(DeviationOf(values) == Approx(0.02).epsilon(0.01));
  CHECK(LargestOf(values) > 3.5 * 0.02);
  CHECK(LargestOf(values) < 7.0 * 0.02);
}

TEST_CASE("constants are what they say, and a row that is to be zero is") {
  CHECK(FirstValues(Initializer::Constant(0.25f)) == Values(kRows * kColumns, 0.25));
  Initializer normal = Initializer::Normal(1.0f);
  const Values without = FirstValues(normal);
  normal.zero_row = 3;
  const Values values = FirstValues(normal);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const auto at = static_cast<size_t>(i);
    REQUIRE(values[at] == (i / kColumns == 3 ? 0.0 : without[at]));
  }
}

TEST_CASE("each parameter starts with numbers of its own, the same ones from the same seed") {
  const Initializer xavier = Initializer::XavierUniform();
  const Values query = FirstValues(xavier, "q");
  CHECK(query == FirstValues(xavier, "q"));
  for (const Values& other : {FirstValues(xavier, "k"), FirstValues(xavier, "q", /*seed=*/4)}) {
    double products = 0.0;
    for (size_t i = 0; i < query.size(); ++i) products += query[i] * other[i];
    const double correlation =
        products / static_cast<double>(query.size()) / DeviationOf(query) / DeviationOf(other);
    CHECK(std::abs(correlation) < 0.02);
  }
}

TEST_CASE("products overwrite the first gradients of an update, and all else is added to zeros") {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  const int group = scope.NewGroup();
  Parameter& bias = scope.Add("bias", {3}, Initializer::Constant(0.0f));
  std::vector<Parameter*> parts;
  for (const char* const name : {"q", "k"}) {
    parts.push_back(&scope.Add(name, {2, 3}, Initializer::Constant(0.0f), group));
    parts.back()->MarkProductGradient();
  }
  Stream stream;
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  const Tensor second = parts[1]->gradient();
  const auto begin = [&] {
    for (Parameter* parameter : parameters.in_backward_order()) {
      const Values left(static_cast<size_t>(parameter->shape().elements()), 7.0);
      testing::SetElements(std::vector<float>(left.begin(), left.end()), parameter->gradient());
    }
    parameters.BeginGradients(stream);
  };
  const auto take = [&](size_t first, size_t count) {
    return Parameter::TakeProductGradient(std::span(parts).subspan(first, count),
                                          {static_cast<int64_t>(2 * count), 3});
  };
  const Values zeros(6, 0.0);

  // Nothing was there before the first BeginGradients().
  CHECK(take(0, 2).accumulate);
  begin();
  CHECK(ValuesOf(bias.gradient()) == Values(3, 0.0));
  const ProductGradient both = take(0, 2);
  CHECK_FALSE(both.accumulate);
  CHECK(both.gradient.shape() == Shape({4, 3}));
  CHECK(ValuesOf(both.gradient) == Values(12, 7.0));
  CHECK(take(0, 2).accumulate);

  // One of two parts was written before: the other is set to zero, and both are added to.
  begin();
  CHECK_FALSE(take(1, 1).accumulate);
  CHECK(take(0, 2).accumulate);
  CHECK(ValuesOf(parts[0]->gradient()) == zeros);
  CHECK(ValuesOf(parts[1]->gradient()) == Values(6, 7.0));

  // Who asks for the gradient, or says that it is ready, finds zeros where no product was.
  begin();
  CHECK(ValuesOf(parts[0]->gradient()) == zeros);
  CHECK(take(0, 1).accumulate);
  Values when_ready;
  parameters.SetReadyListener([&](const Parameter&) { when_ready = ValuesOf(second); });
  parts[1]->GradientReady();
  CHECK(when_ready == zeros);
  begin();
  for (const double value : ValuesOf(parameters.gradients())) CHECK(value == 0.0);

  // The work of a recorded graph stays.
  begin();
  parameters.SettleGradients(/*by_graph=*/true);
  CHECK(ValuesOf(parts[0]->gradient()) == Values(6, 7.0));
  CHECK(take(0, 1).accumulate);
}

}  // namespace
}  // namespace dtrain
