// period.h - periods and lengths of runs as users write them: "500u", "2e", "10Mt", "90s", "5m".
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_PERIOD_H_
#define DTRAIN_BASE_PERIOD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain {

enum class PeriodUnit { kNever, kUpdates, kEpochs, kTokens, kSeconds };

// Something that recurs: every `count` of `unit`.
struct Period {
  PeriodUnit unit = PeriodUnit::kNever;
  double count = 0;  // > 0 unless kNever; whole for updates and tokens

  bool never() const { return unit == PeriodUnit::kNever; }
  friend bool operator==(const Period&, const Period&) = default;
};

// "500u" updates, "0.5e" epochs, "10Mt" target tokens, "90s" "5m" "2h" time; k, M or G before the
// unit multiply by 10^3, 10^6, 10^9. "" is never. A bare number is an error: its unit is a guess.
// UsageError without the name of the field.
StatusOr<Period> ParsePeriod(std::string_view text);

// What ParsePeriod() reads back: "500u", "1500000t", "300s"; "" is never.
std::string FormatPeriod(const Period& period);

// Where a run stands, in every unit a period may have.
struct PeriodClock {
  int64_t updates = 0;
  double epochs = 0;
  int64_t tokens = 0;
  double seconds = 0;

  double At(PeriodUnit unit) const;
};

// True where a multiple of the period lies in (before, now]: a resumed run asks the same questions
// and gets the same answers.
bool PeriodPassed(const Period& period, const PeriodClock& before, const PeriodClock& now);

// Updates of a run that ends at the first of two limits, where 0 is no limit; 0 without both. A
// limit in epochs of an unknown number of updates, 0, does not count.
int64_t UpdatesOf(int64_t max_steps, int64_t max_epochs, int64_t updates_per_epoch);

// "90s", "12m", "2h", "1.5d" or a bare number of seconds, in seconds, > 0; "" is 0, no limit.
// UsageError without the name of the field.
StatusOr<double> ParseDuration(std::string_view text);

}  // namespace dtrain

#endif  // DTRAIN_BASE_PERIOD_H_
