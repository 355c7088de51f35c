// collectives_test.cc - the example of named collectives comes to the same on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/runs/trace_files.h"
#include "integration/program.h"
#include "testing/file_testing.h"

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

TEST_CASE("the example's timelines of two ranks hold every step, tensor and exchange") {
  const TemporaryFolder folder;
  const Outcome outcome =
      RunCommand(CommandOn(2, DTRAIN_TEST_PROGRAM) + " " + folder.File("trace"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const StatusOr<MergedTrace> merged =
      MergeTraces(folder.File("trace"), folder.File("merged.json"));
  REQUIRE(merged.ok());
  CHECK(merged->ranks == 2);
  CHECK(merged->missing.empty());
  std::map<std::string, int> counts;
  for (const auto& event : nlohmann::json::parse(ReadTestFile(folder.File("merged.json")))) {
    if (event.at("ph") == "X") ++counts[event.at("name").get<std::string>()];
  }
  // 250 updates of both ranks, and one that the second rank has no row for.
  CHECK(counts["step"] == 501);
  CHECK(counts["count"] == 501);
  // Both are broadcast at the start and at the end, too.
  CHECK(counts["weight"] == 505);
  CHECK(counts["bias"] == 505);
  CHECK(counts["broadcast"] == 8);
  CHECK(counts["errors"] == 2);
  CHECK(counts["all-gather"] == 2);
}

}  // namespace
}  // namespace dtrain
