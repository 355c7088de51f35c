// collectives_test.cc - the example of named collectives comes to the same on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>

#include "integration/program.h"

namespace dtrain {
namespace {

struct Result {
  std::vector<double> weights = std::vector<double>(5);  // the bias is the last
  double rmse = 0.0;
  int rows = 0;
};

Result RunOn(int ranks) {
  const Outcome outcome = RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  Result result;
  std::vector<double>& w = result.weights;
  REQUIRE(std::sscanf(outcome.output.c_str(),
                      "weights %lf %lf %lf %lf bias %lf, rmse %lf of %d rows\n", &w[0], &w[1],
                      &w[2], &w[3], &w[4], &result.rmse, &result.rows) == 7);
  return result;
}

TEST_CASE("named collectives train the same weights on one, two and four ranks") {
  const Result one = RunOn(1);
  CHECK(one.rows == 101);
  CHECK(one.rmse < 0.05);  // the noise alone: 0.1 / sqrt(12)
  const std::vector<double> truth = {1.0, 2.0, 3.0, 4.0, -0.5};
  for (size_t i = 0; i < truth.size(); ++i) CHECK(std::abs(one.weights[i] - truth[i]) < 0.03);
  for (const int ranks : {2, 4}) {
    INFO(ranks << " ranks");
    const Result result = RunOn(ranks);
    CHECK(result.rows == 101);
    // Sums of floats in another order, printed to six places.
    CHECK(std::abs(result.rmse - one.rmse) < 1e-5);
    for (size_t i = 0; i < truth.size(); ++i) {
      CHECK(std::abs(result.weights[i] - one.weights[i]) < 1e-5);
    }
  }
}

}  // namespace
}  // namespace dtrain
