// metric_warnings_test.cc - a missing or undefined metric is warned about once.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/metric_warnings.h"

#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/log.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::vector<SteeringMetric> kSteering = {
    {.name = "auc", .if_missing = "no best", .if_undefined = "it chooses no best"}};

std::string WarningsOf(MetricWarnings& warnings, const EvaluationResult& result) {
  std::string text;
  const LogSink previous =
      SetLogSink([&](LogLevel, std::string_view message) { text += std::string(message); });
  warnings.Look(result, kSteering);
  SetLogSink(previous);
  return text;
}

TEST_CASE("a metric that the task does not give is warned about at the first evaluation") {
  MetricWarnings warnings(/*is_root=*/true);
  CHECK(WarningsOf(warnings, {}).empty());  // no dev set
  CHECK_THAT(WarningsOf(warnings, {.metrics = {{"nll", 1.0}, {"ppl", 2.0}}}),
             Catch::Contains("evaluations give nll, ppl, but not auc: no best"));
  CHECK(WarningsOf(warnings, {.metrics = {{"nll", 1.0}}}).empty());
}

TEST_CASE("a metric is warned about each time it becomes undefined") {
  MetricWarnings warnings(/*is_root=*/true);
  CHECK(WarningsOf(warnings, {.metrics = {{"auc", 0.5}}}).empty());
  CHECK_THAT(
      WarningsOf(warnings, {.metrics = {{"auc", kNan}}}),
      Catch::Contains("auc is undefined on the dev set") && Catch::Contains("it chooses no best"));
  CHECK(WarningsOf(warnings, {.metrics = {{"auc", kNan}}}).empty());
  CHECK(WarningsOf(warnings, {.metrics = {{"auc", 0.5}}}).empty());
  CHECK_FALSE(WarningsOf(warnings, {.metrics = {{"auc", kNan}}}).empty());
}

TEST_CASE("only the root warns") {
  MetricWarnings warnings(/*is_root=*/false);
  CHECK(WarningsOf(warnings, {.metrics = {{"nll", 1.0}}}).empty());
  CHECK(WarningsOf(warnings, {.metrics = {{"auc", kNan}}}).empty());
}

}  // namespace
}  // namespace dtrain
