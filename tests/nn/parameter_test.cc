// parameter_test.cc - what parameters start with: bounds, deviations, and each its own numbers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/parameter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

}  // namespace
}  // namespace dtrain
