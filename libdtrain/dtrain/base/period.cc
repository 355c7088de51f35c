// period.cc - parses and prints a number, an optional factor and a unit.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/period.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"

namespace dtrain {
namespace {

// Larger products are clamped to this: no run gets there, and sums with it do not overflow.
constexpr int64_t kMostUpdates = int64_t{1} << 62;

// Splits "12.5ab" into 12.5 and "ab". Returns false if the text does not start with a number.
bool SplitNumber(std::string_view text, double& number, std::string_view& rest) {
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number)) return false;
  rest = {next, static_cast<size_t>(end - next)};
  return true;
}

Status BadPeriod(std::string_view text, std::string_view why) {
  return UsageError(absl::StrFormat(
      "\"%s\" is not a period: %s; write for example 500u (updates), 2e (epochs), 10Mt (target "
      "tokens), 90s, 5m or 2h",
      text, why));
}

}  // namespace

StatusOr<Period> ParsePeriod(std::string_view text) {
  if (text.empty()) return Period{};
  double count = 0;
  std::string_view unit;
  if (!SplitNumber(text, count, unit)) return BadPeriod(text, "it does not start with a number");
  if (unit.empty()) return BadPeriod(text, "it has no unit");
  if (!(count > 0)) return BadPeriod(text, "it is not above zero");
  if (unit.size() == 2) {
    switch (unit.front()) {
      case 'k':
        count *= 1e3;
        break;
      case 'M':
        count *= 1e6;
        break;
      case 'G':
        count *= 1e9;
        break;
      default:
        return BadPeriod(text, "unknown unit");
    }
    unit.remove_prefix(1);
    if (unit != "u" && unit != "t")
      return BadPeriod(text, "the factors k, M and G are only allowed before u and t");
  }
  Period period{.unit = PeriodUnit::kSeconds, .count = count};
  if (unit == "u") {
    period.unit = PeriodUnit::kUpdates;
  } else if (unit == "t") {
    period.unit = PeriodUnit::kTokens;
  } else if (unit == "e") {
    period.unit = PeriodUnit::kEpochs;
  } else if (unit == "m") {
    period.count *= 60;
  } else if (unit == "h") {
    period.count *= 3600;
  } else if (unit != "s") {
    return BadPeriod(text, "unknown unit");
  }
  const bool whole = period.unit == PeriodUnit::kUpdates || period.unit == PeriodUnit::kTokens;
  if (whole && period.count != std::floor(period.count)) {
    return BadPeriod(text, "updates and tokens are whole numbers");
  }
  return period;
}

std::string FormatPeriod(const Period& period) {
  switch (period.unit) {
    case PeriodUnit::kNever:
      return "";
    case PeriodUnit::kUpdates:
      return absl::StrFormat("%.0fu", period.count);
    case PeriodUnit::kTokens:
      return absl::StrFormat("%.0ft", period.count);
    case PeriodUnit::kEpochs:
      return absl::StrFormat("%.10ge", period.count);
    case PeriodUnit::kSeconds:
      return absl::StrFormat("%.10gs", period.count);
  }
  return "";
}

double PeriodClock::At(PeriodUnit unit) const {
  switch (unit) {
    case PeriodUnit::kNever:
      return 0;
    case PeriodUnit::kUpdates:
      return static_cast<double>(updates);
    case PeriodUnit::kEpochs:
      return epochs;
    case PeriodUnit::kTokens:
      return static_cast<double>(tokens);
    case PeriodUnit::kSeconds:
      return seconds;
  }
  return 0;
}

bool PeriodPassed(const Period& period, const PeriodClock& before, const PeriodClock& now) {
  if (period.never()) return false;
  return std::floor(now.At(period.unit) / period.count) >
         std::floor(before.At(period.unit) / period.count);
}

int64_t UpdatesOf(int64_t max_steps, int64_t max_epochs, int64_t updates_per_epoch) {
  int64_t of_epochs = 0;
  if (__builtin_mul_overflow(max_epochs, updates_per_epoch, &of_epochs)) of_epochs = kMostUpdates;
  of_epochs = std::min(of_epochs, kMostUpdates);
  if (of_epochs == 0) return max_steps;
  return max_steps > 0 ? std::min(max_steps, of_epochs) : of_epochs;
}

StatusOr<double> ParseDuration(std::string_view text) {
  if (text.empty()) return 0.0;
  double seconds = 0;
  std::string_view unit;
  double factor = 0;
  if (SplitNumber(text, seconds, unit) && seconds > 0) {
    if (unit.empty() || unit == "s") factor = 1;
    if (unit == "m") factor = 60;
    if (unit == "h") factor = 3600;
    if (unit == "d") factor = 86400;
  }
  if (factor == 0) {
    return UsageError(absl::StrFormat(
        "\"%s\" is not a length of time; write for example 90s, 12m, 2h or a number of seconds",
        text));
  }
  return seconds * factor;
}

}  // namespace dtrain
