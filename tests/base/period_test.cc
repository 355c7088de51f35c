// period_test.cc - periods and durations, their errors, and when a period has passed.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/period.h"

#include <limits>
#include <string>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("a period is a number with a unit") {
  struct Case {
    const char* text;
    Period period;
  };
  const Case cases[] = {
      {"", {}},
      {"500u", {PeriodUnit::kUpdates, 500}},
      {"100ku", {PeriodUnit::kUpdates, 100000}},
      {"100e", {PeriodUnit::kEpochs, 100}},
      {"0.25e", {PeriodUnit::kEpochs, 0.25}},
      {"10Mt", {PeriodUnit::kTokens, 1e7}},
      {"1.5Mt", {PeriodUnit::kTokens, 1.5e6}},
      {"2Gt", {PeriodUnit::kTokens, 2e9}},
      {"60s", {PeriodUnit::kSeconds, 60}},
      {"5m", {PeriodUnit::kSeconds, 300}},
      {"2h", {PeriodUnit::kSeconds, 7200}},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const StatusOr<Period> period = ParsePeriod(c.text);
    REQUIRE(period.ok());
    CHECK(*period == c.period);
    const StatusOr<Period> again = ParsePeriod(FormatPeriod(*period));
    REQUIRE(again.ok());
    CHECK(*again == c.period);
  }
}

TEST_CASE("what is no period is refused with the reason") {
  struct Case {
    const char* text;
    const char* why;
  };
  const Case cases[] = {
      {"500", "it has no unit"},       {"u", "it does not start with a number"},
      {"-5u", "it is not above zero"}, {"0u", "it is not above zero"},
      {"5x", "unknown unit"},          {"5min", "unknown unit"},
      {"1.5u", "whole numbers"},       {"5ks", "k, M and G are only allowed before u and t"},
      {" 5u", "start with a number"},  {"5 u", "unknown unit"},
      {"nanu", "start with a number"}, {"infs", "start with a number"},
      {"5Q", "unknown unit"},          {"never", "start with a number"},
      {"1e400u", "unknown unit"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const StatusOr<Period> period = ParsePeriod(c.text);
    REQUIRE_FALSE(period.ok());
    CHECK(period.status().code() == ExitCode::kUsage);
    CHECK_THAT(std::string(period.status().message()), Catch::Contains(c.why));
    CHECK_THAT(std::string(period.status().message()), Catch::Contains("500u"));
  }
}

TEST_CASE("a period has passed where a multiple of it was reached") {
  const Period every_ten{PeriodUnit::kUpdates, 10};
  const auto at = [](int64_t updates) { return PeriodClock{.updates = updates}; };
  CHECK_FALSE(PeriodPassed(every_ten, at(0), at(9)));
  CHECK(PeriodPassed(every_ten, at(9), at(10)));
  CHECK_FALSE(PeriodPassed(every_ten, at(10), at(11)));
  CHECK(PeriodPassed(every_ten, at(11), at(35)));
  CHECK_FALSE(PeriodPassed(Period{}, at(0), at(1000)));
  CHECK(PeriodPassed({PeriodUnit::kEpochs, 0.5}, {.epochs = 0.4}, {.epochs = 0.6}));
  CHECK(PeriodPassed({PeriodUnit::kTokens, 1e6}, {.tokens = 999'000}, {.tokens = 1'001'000}));
  CHECK(PeriodPassed({PeriodUnit::kSeconds, 60}, {.seconds = 59.9}, {.seconds = 60.1}));
}

TEST_CASE("a run has the updates of its first limit") {
  CHECK(UpdatesOf(0, 0, 25) == 0);
  CHECK(UpdatesOf(10, 0, 25) == 10);
  CHECK(UpdatesOf(0, 3, 25) == 75);
  CHECK(UpdatesOf(10, 3, 25) == 10);
  CHECK(UpdatesOf(100, 3, 25) == 75);
  CHECK(UpdatesOf(100, 3, 0) == 100);
  CHECK(UpdatesOf(0, 3, 0) == 0);
  // A product beyond all numbers is still more than the other limit.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(UpdatesOf(10, kMost, 25) == 10);
  CHECK(UpdatesOf(0, kMost, int64_t{1} << 40) == int64_t{1} << 62);
  CHECK(UpdatesOf(0, int64_t{1} << 24, int64_t{1} << 40) == int64_t{1} << 62);
}

TEST_CASE("durations are read in seconds") {
  CHECK(ParseDuration("").value() == 0);
  CHECK(ParseDuration("90").value() == 90);
  CHECK(ParseDuration("90s").value() == 90);
  CHECK(ParseDuration("12m").value() == 720);
  CHECK(ParseDuration("1.5h").value() == 5400);
  CHECK(ParseDuration("1d").value() == 86400);
  for (const char* bad : {"0s", "-1m", "m", "5u", "12 m", "nan", "1h30m", "0"}) {
    INFO(bad);
    const StatusOr<double> seconds = ParseDuration(bad);
    REQUIRE_FALSE(seconds.ok());
    CHECK(seconds.status().code() == ExitCode::kUsage);
    CHECK_THAT(std::string(seconds.status().message()),
               Catch::Contains("is not a length of time") && Catch::Contains(bad));
  }
}

}  // namespace
}  // namespace dtrain
