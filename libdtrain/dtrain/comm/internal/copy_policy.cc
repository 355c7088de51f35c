// copy_policy.cc - which pieces are tried, and what their times say.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/copy_policy.h"

#include <algorithm>
#include <limits>

namespace dtrain::internal {

bool CopyPolicy::PastCaches(int64_t piece) const {
  const int64_t place = piece % kPeriod;
  if (place >= 2 * kTrial) return past_caches_;
  const bool past_first = piece / kPeriod % 2 == 1;
  return (place < kTrial) == past_first;
}

bool CopyPolicy::Timed(int64_t piece) const {
  const int64_t place = piece % kPeriod;
  return place < 2 * kTrial && place % kTrial >= kTimed;
}

void CopyPolicy::Add(int64_t piece, size_t bytes, double seconds) {
  Cost& cost = (PastCaches(piece) ? past_ : through_)[static_cast<size_t>(piece % kTimed)];
  cost.seconds += seconds;
  cost.bytes = bytes;
}

void CopyPolicy::Finish(int64_t piece) {
  if (piece % kPeriod != 2 * kTrial - 1) return;
  // The second least: neither one that another process interrupted nor one that was in luck.
  const auto typical = [](const Costs& costs) {
    std::array<double, kTimed> seconds{};
    std::transform(costs.begin(), costs.end(), seconds.begin(), [](const Cost& cost) {
      return cost.bytes > 0 ? cost.seconds / static_cast<double>(cost.bytes)
                            : std::numeric_limits<double>::infinity();
    });
    std::nth_element(seconds.begin(), seconds.begin() + 1, seconds.end());
    return seconds[1];
  };
  // Not for a difference as small as the noise.
  constexpr double kGain = 1.1;
  past_caches_ = typical(through_) > kGain * typical(past_);
  through_ = {};
  past_ = {};
}

}  // namespace dtrain::internal
