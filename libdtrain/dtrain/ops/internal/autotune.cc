// autotune.cc - runs rounds in which all ways take turns, and compares their medians.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/autotune.h"

#include <algorithm>
#include <vector>

namespace dtrain {
namespace {

constexpr int kRounds = 5;
// A later way must be faster than this fraction of an earlier way's time; smaller differences are
// noise.
constexpr double kMargin = 0.98;

}  // namespace

std::optional<FastestChoice> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of) {
  std::vector<std::vector<double>> times(count);
  std::vector<bool> runs(count, true);
  // The first round loads the kernels and is not counted.
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      if (!runs[i]) continue;
      const std::optional<double> seconds = seconds_of(i);
      runs[i] = seconds.has_value();
      if (seconds.has_value() && round > 0) times[i].push_back(*seconds);
    }
  }
  std::optional<FastestChoice> fastest;
  for (size_t i = 0; i < count; ++i) {
    if (!runs[i]) continue;
    const auto middle = times[i].begin() + kRounds / 2;
    std::nth_element(times[i].begin(), middle, times[i].end());
    if (!fastest.has_value() || *middle < kMargin * fastest->seconds) fastest = {i, *middle};
  }
  return fastest;
}

}  // namespace dtrain
