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

// Something that recurs: every `count` units.
struct Period {
  PeriodUnit unit = PeriodUnit::kNever;
  double count = 0;  // > 0 unless kNever; a whole number for updates and tokens

  bool never() const { return unit == PeriodUnit::kNever; }
  friend bool operator==(const Period&, const Period&) = default;
};

// Parses "500u" (updates), "0.5e" (epochs), "10Mt" (target tokens) or "90s", "5m", "2h" (time).
// Before u and t, k, M and G multiply by 10^3, 10^6 and 10^9. "" means never. A number without a
// unit is an error because the unit would be a guess. Returns UsageError, whose message does not
// name the field.
StatusOr<Period> ParsePeriod(std::string_view text);

// The inverse of ParsePeriod(): "500u", "1500000t", "300s"; "" for never.
std::string FormatPeriod(const Period& period);

// The position of a run, in every unit that a period may have.
struct PeriodClock {
  int64_t updates = 0;
  double epochs = 0;
  int64_t tokens = 0;
  double seconds = 0;

  double At(PeriodUnit unit) const;
};

// True if a multiple of the period lies in (before, now]. The answer depends only on the two
// positions, so a resumed run gets the same answers.
bool PeriodPassed(const Period& period, const PeriodClock& before, const PeriodClock& now);

// Number of updates of a run that ends at whichever limit comes first. A limit of 0 is no limit;
// without any limit the result is 0. If updates_per_epoch is 0 (unknown), max_epochs is ignored.
int64_t UpdatesOf(int64_t max_steps, int64_t max_epochs, int64_t updates_per_epoch);

// Parses "90s", "12m", "2h", "1.5d" or a bare number of seconds. Returns seconds > 0, or 0 (no
// limit) for "". Returns UsageError, whose message does not name the field.
StatusOr<double> ParseDuration(std::string_view text);

}  // namespace dtrain

#endif  // DTRAIN_BASE_PERIOD_H_
