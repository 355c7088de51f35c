// statistics.cc - medians, extrapolation, noise, spikes and what of a curve is drawn.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "dtrain/base/random.h"
#include "dtrain/report/limits.h"

namespace dtrain {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// A normal distribution's standard deviation is so many times its median absolute deviation.
constexpr double kOfMedianDeviation = 1.4826;
constexpr int kRedraws = 500;
constexpr uint64_t kSeed = 1;

// Box and Muller.
double DrawNormal(RandomStream& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.NextUniform()));
  return radius * std::cos(2.0 * std::numbers::pi * random.NextUniform());
}

ExpectedGain GainOf(std::span<const CurvePoint> points, double trusted) {
  const double end = points.back().x * trusted;
  const double middle = Interpolated(points, end * 2.0 / 3.0);
  ExpectedGain result;
  result.first_fall = Interpolated(points, end * 4.0 / 9.0) - middle;
  result.second_fall = middle - Interpolated(points, end);
  result.gain = result.second_fall;
  if (result.second_fall > 0.0) {
    const double ratio =
        result.first_fall <= result.second_fall ? 1.0 : result.second_fall / result.first_fall;
    result.gain *= std::pow(ratio, 1.0 + std::log(1.0 / trusted) / std::log(1.5));
  }
  return result;
}

double MedianOfSorted(std::span<const double> sorted) {
  const size_t n = sorted.size();
  if (n == 0) return kNaN;
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

// The last values, in the order of their sizes.
class SortedWindow {
 public:
  explicit SortedWindow(size_t size) : size_(size) {}

  void Add(double value) {
    if (order_.size() == size_) {
      const double oldest = order_[next_];
      sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), oldest));
      order_[next_] = value;
      next_ = (next_ + 1) % size_;
    } else {
      order_.push_back(value);
    }
    sorted_.insert(std::lower_bound(sorted_.begin(), sorted_.end(), value), value);
  }
  size_t size() const { return sorted_.size(); }
  double median() const { return MedianOfSorted(sorted_); }
  double Deviation() const {
    std::vector<double> distances;
    for (const double value : sorted_) distances.push_back(std::abs(value - median()));
    return kOfMedianDeviation * Median(std::move(distances));
  }

 private:
  size_t size_;
  size_t next_ = 0;
  std::vector<double> order_;
  std::vector<double> sorted_;
};

// Of those values that are finite.
struct FiniteSum {
  double sum = 0.0;
  size_t count = 0;

  FiniteSum operator+(double value) const {
    return std::isfinite(value) ? FiniteSum{sum + value, count + 1} : *this;
  }
  void Add(const FiniteSum& other) {
    sum += other.sum;
    count += other.count;
  }
};

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return MedianOfSorted(values);
}

double Interpolated(std::span<const CurvePoint> points, double x) {
  const auto after = std::lower_bound(points.begin(), points.end(), x,
                                      [](const CurvePoint& p, double at) { return p.x < at; });
  if (after == points.begin()) return points.front().y;
  if (after == points.end()) return points.back().y;
  const CurvePoint& a = *(after - 1);
  const CurvePoint& b = *after;
  return b.x == a.x ? b.y : a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
}

std::optional<ExpectedGain> ExtrapolateLoss(std::span<const CurvePoint> points, double deviation,
                                            double trusted) {
  if (points.size() < 4 || points.front().x > points.back().x * trusted * 4.0 / 9.0) {
    return std::nullopt;
  }
  ExpectedGain result = GainOf(points, trusted);
  RandomStream random({.seed = kSeed});
  std::vector<double> gains;
  for (int i = 0; i < kRedraws; ++i) {
    std::vector<CurvePoint> drawn(points.begin(), points.end());
    for (CurvePoint& point : drawn) point.y += deviation * DrawNormal(random);
    gains.push_back(GainOf(drawn, trusted).gain);
  }
  std::sort(gains.begin(), gains.end());
  result.low = gains[kRedraws * 5 / 100];
  result.high = gains[kRedraws * 95 / 100];
  return result;
}

std::optional<Slope> MetricPerLoss(std::span<const CurvePoint> points) {
  const size_t n = points.size();
  points = points.subspan(std::min(n / 3, n > 4 ? n - 4 : 0));
  if (points.size() < 3) return std::nullopt;
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = i + 1; k < points.size(); ++k) {
      const double fall = points[i].x - points[k].x;
      if (fall != 0.0) slopes.push_back((points[k].y - points[i].y) / fall);
    }
  }
  if (slopes.empty()) return std::nullopt;
  std::sort(slopes.begin(), slopes.end());
  return Slope{.median = MedianOfSorted(slopes),
               .low = slopes[slopes.size() / 4],
               .high = slopes[3 * slopes.size() / 4]};
}

double NoiseOfCurve(std::span<const CurvePoint> points) {
  const size_t n = points.size();
  if (n < 4) return kNaN;
  // Four points leave two inner ones.
  points = points.subspan(std::min(n / 3, n - 4));
  std::vector<double> scaled;
  for (size_t i = 1; i + 1 < points.size(); ++i) {
    const auto place = [&](size_t k) { return std::log(std::max(points[k].x, 1e-300)); };
    const double width = place(i + 1) - place(i - 1);
    if (!(width > 0.0)) continue;
    const double weight = (place(i) - place(i - 1)) / width;
    const double line = points[i - 1].y + weight * (points[i + 1].y - points[i - 1].y);
    const double variance = 1.0 + weight * weight + (1.0 - weight) * (1.0 - weight);
    scaled.push_back(std::abs(points[i].y - line) / std::sqrt(variance));
  }
  return scaled.empty() ? kNaN : kOfMedianDeviation * Median(std::move(scaled));
}

std::vector<size_t> FindSpikes(std::span<const double> losses) {
  constexpr size_t kNeeded = 10;
  std::vector<size_t> places;
  SortedWindow past(static_cast<size_t>(limits::kSpikeWindow.value));
  for (size_t i = 0; i < losses.size(); ++i) {
    const double loss = losses[i];
    if (!std::isfinite(loss)) {
      places.push_back(i);
      continue;
    }
    if (past.size() >= kNeeded) {
      const double above = loss - past.median();
      if (above > limits::kSpikeShare * std::abs(past.median()) &&
          above > limits::kSpikeDeviations * past.Deviation()) {
        places.push_back(i);
      }
    }
    past.Add(loss);
  }
  return places;
}

std::vector<double> Smoothed(std::span<const double> values) {
  const size_t n = values.size();
  const size_t half = std::max<size_t>(2, n * 3 / 200);
  const size_t width = 2 * half + 1;
  // Sums within blocks of a window's width, from each block's begin and to its end: a window is the
  // end of a block and the begin of the next. So no sum holds a value outside its window; a
  // difference of sums over all would lose everything after one huge value.
  std::vector<FiniteSum> from_begin(n);
  std::vector<FiniteSum> to_end(n);
  std::vector<FiniteSum> to_last(n);
  for (size_t i = 0; i < n; ++i) {
    from_begin[i] = (i % width == 0 ? FiniteSum{} : from_begin[i - 1]) + values[i];
  }
  for (size_t i = n; i-- > 0;) {
    to_last[i] = (i + 1 == n ? FiniteSum{} : to_last[i + 1]) + values[i];
    const bool ends_block = i + 1 == n || i % width == width - 1;
    to_end[i] = (ends_block ? FiniteSum{} : to_end[i + 1]) + values[i];
  }
  std::vector<double> smoothed(n, kNaN);
  for (size_t i = 0; i < n; ++i) {
    const size_t reach = std::min({half, i, n - 1 - i});
    const size_t begin = i - reach;
    const size_t end = i + reach;
    FiniteSum sum = from_begin[end];
    if (end == n - 1) {
      sum = to_last[begin];
    } else if (begin / width != end / width) {
      sum.Add(to_end[begin]);
    }
    if (sum.count > 0) smoothed[i] = sum.sum / static_cast<double>(sum.count);
  }
  return smoothed;
}

std::vector<size_t> PlacesToDraw(std::span<const double> values, size_t buckets) {
  const size_t n = values.size();
  std::vector<size_t> places;
  if (n <= 2 * buckets) {
    for (size_t i = 0; i < n; ++i) places.push_back(i);
    return places;
  }
  places = {0, n - 1};
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    std::optional<size_t> least;
    std::optional<size_t> most;
    std::optional<size_t> broken;
    for (size_t i = bucket * n / buckets; i < (bucket + 1) * n / buckets; ++i) {
      if (!std::isfinite(values[i])) {
        if (!broken) broken = i;
        continue;
      }
      if (!least || values[i] < values[*least]) least = i;
      if (!most || values[i] > values[*most]) most = i;
    }
    for (const std::optional<size_t>& place : {least, most, broken}) {
      if (place) places.push_back(*place);
    }
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

double YoungInterval(double checkpoint_seconds, double failure_seconds) {
  return std::sqrt(2.0 * checkpoint_seconds * failure_seconds);
}

}  // namespace dtrain
