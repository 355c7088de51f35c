// autotune.cc - two series of rounds in which all ways take turns, and their medians.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/autotune.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"

namespace dtrain {
namespace {

constexpr int kSeries = 2;
constexpr int kRounds = 5;
// A later way must be faster than this fraction of an earlier way's time; smaller differences are
// noise.
constexpr double kMargin = 0.99;
// Ways whose first counted time, or first median, is this many times the best are out.
constexpr double kFirstTime = 2.0;
constexpr double kFirstMedian = 1.1;

// The ways still in the running, and their times in the present series.
class Contest {
 public:
  Contest(size_t count, const std::function<std::optional<double>(size_t)>& seconds_of)
      : seconds_of_(seconds_of), ways_(count), times_(count), seconds_(count, 0.0) {
    std::iota(ways_.begin(), ways_.end(), size_t{0});
  }

  // Runs each way once, in a random order: who follows whom changes times.
  void RunRound() {
    for (size_t i = ways_.size(); i > 1; --i) {
      std::swap(ways_[i - 1], ways_[random_.NextBelow(static_cast<uint32_t>(i))]);
    }
    Keep([&](size_t way) {
      const std::optional<double> seconds = seconds_of_(way);
      if (seconds.has_value()) times_[way].push_back(*seconds);
      return seconds.has_value();
    });
  }

  void ForgetTimes() {
    for (std::vector<double>& times : times_) times.clear();
  }
  // Drops ways whose median in this series is more than `factor` times the least.
  void DropSlower(double factor) {
    double least = std::numeric_limits<double>::infinity();
    for (const size_t way : ways_) least = std::min(least, Median(way));
    Keep([&](size_t way) { return Median(way) <= factor * least; });
  }
  // A way's time is the larger of its medians, so a lucky series does not decide.
  void EndSeries() {
    for (const size_t way : ways_) seconds_[way] = std::max(seconds_[way], Median(way));
  }

  std::optional<FastestChoice> Fastest() {
    std::sort(ways_.begin(), ways_.end());
    std::optional<FastestChoice> fastest;
    for (const size_t way : ways_) {
      if (!fastest.has_value() || seconds_[way] < kMargin * fastest->seconds) {
        fastest = {way, seconds_[way]};
      }
    }
    return fastest;
  }

 private:
  template <typename Stays>
  void Keep(const Stays& stays) {
    std::vector<size_t> kept;
    for (const size_t way : ways_) {
      if (stays(way)) kept.push_back(way);
    }
    ways_ = std::move(kept);
  }
  double Median(size_t way) {
    std::vector<double>& times = times_[way];
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  const std::function<std::optional<double>(size_t)>& seconds_of_;
  RandomStream random_{{.seed = 1}};
  std::vector<size_t> ways_;
  std::vector<std::vector<double>> times_;  // of each way
  std::vector<double> seconds_;
};

}  // namespace

std::optional<FastestChoice> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of) {
  Contest contest(count, seconds_of);
  contest.RunRound();  // loads the kernels and is not counted
  for (int series = 0; series < kSeries; ++series) {
    contest.ForgetTimes();
    for (int round = 0; round < kRounds; ++round) {
      contest.RunRound();
      if (series == 0 && round == 0) contest.DropSlower(kFirstTime);
    }
    contest.EndSeries();
    if (series == 0) contest.DropSlower(kFirstMedian);
  }
  return contest.Fastest();
}

}  // namespace dtrain
