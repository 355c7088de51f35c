// metrics_test.cc - worked examples of a language model's metrics.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/metrics.h"

#include <cmath>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("five tokens of a quarter each, four of them bytes") {
  const auto metrics = LanguageModelMetrics(/*nll=*/5 * std::log(4.0), /*tokens=*/5, /*bytes=*/4);
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].first == "loss");
  CHECK(metrics[0].second == Approx(std::log(4.0)));
  CHECK(metrics[1].first == "ppl");
  CHECK(metrics[1].second == Approx(4.0));
  CHECK(metrics[2].first == "bits_per_byte");
  CHECK(metrics[2].second == Approx(10.0 / 4.0));  // two bits a token
}

TEST_CASE("the names of the metrics are those that are measured") {
  const auto metrics = LanguageModelMetrics(1.0, 2, 0);
  const auto names = LanguageModelMetricNames();
  REQUIRE(metrics.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(metrics[i].first == names[i]);
    CHECK(std::isfinite(metrics[i].second));
  }
}

}  // namespace
}  // namespace dtrain
