// statistics_test.cc - extrapolation, noise, spikes and thinning of curves.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "dtrain/base/random.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<CurvePoint> Curve(int points, double end, const std::function<double(double)>& y) {
  std::vector<CurvePoint> curve;
  for (int i = 1; i <= points; ++i) curve.push_back({end * i / points, y(end * i / points)});
  return curve;
}

// Uniform within -1 and 1.
double Noise(RandomStream& random) { return 2.0 * random.NextUniform() - 1.0; }

TEST_CASE("the median is the middle, or the mean of the two middle values") {
  CHECK(Median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(Median({4.0, 1.0, 2.0, 3.0}) == 2.5);
  CHECK(std::isnan(Median({})));
}

TEST_CASE("between points a curve is linear, outside it is flat") {
  const std::vector<CurvePoint> points = {{1.0, 10.0}, {3.0, 20.0}};
  CHECK(Interpolated(points, 2.0) == 15.0);
  CHECK(Interpolated(points, 0.0) == 10.0);
  CHECK(Interpolated(points, 9.0) == 20.0);
}

TEST_CASE("the gain of a power law is foretold exactly") {
  struct Law {
    double end, factor, power;
  };
  const Law law = GENERATE(Law{1.5, 300.0, 0.35}, Law{0.0, 50.0, 0.2}, Law{2.0, 4000.0, 0.6});
  const double trusted = GENERATE(1.0, 2.0 / 3.0);
  const auto loss = [&](double x) { return law.end + law.factor * std::pow(x, -law.power); };
  const auto gain = ExtrapolateLoss(Curve(540, 1e7, loss), 0.0, trusted);
  REQUIRE(gain.has_value());
  const double expected = loss(1e7) - loss(1.5e7);
  CHECK(gain->gain == Approx(expected).epsilon(0.01));
  CHECK(gain->low == gain->gain);
  CHECK(gain->high == gain->gain);
}

TEST_CASE("too few evaluations, or a first one that is late, foretell nothing") {
  const auto flat = [](double) { return 1.0; };
  CHECK_FALSE(ExtrapolateLoss(Curve(3, 1.0, flat), 0.01, 1.0).has_value());
  CHECK(ExtrapolateLoss(Curve(4, 1.0, flat), 0.01, 1.0).has_value());
  CHECK(ExtrapolateLoss(Curve(4, 1.0, flat), 0.01, 2.0 / 3.0).has_value());
  const std::vector<CurvePoint> late = {{0.5, 1.0}, {0.6, 1.0}, {0.8, 1.0}, {1.0, 1.0}};
  CHECK_FALSE(ExtrapolateLoss(late, 0.01, 1.0).has_value());
}

TEST_CASE("noise widens the interval of a gain, the same way every time") {
  const auto curve = Curve(18, 1e7, [](double x) { return 1.5 + 300.0 * std::pow(x, -0.35); });
  const auto gain = ExtrapolateLoss(curve, 0.02, 1.0);
  const auto again = ExtrapolateLoss(curve, 0.02, 1.0);
  REQUIRE(gain.has_value());
  CHECK(gain->low < gain->gain);
  CHECK(gain->high > gain->gain);
  CHECK(gain->low == again->low);
  CHECK(gain->high == again->high);
  const auto noisier = ExtrapolateLoss(curve, 0.04, 1.0);
  CHECK(noisier->high - noisier->low > gain->high - gain->low);
}

TEST_CASE("a fall of the loss has a worth in the metric that an outlier does not change") {
  std::vector<CurvePoint> pairs;
  for (int i = 0; i < 12; ++i) pairs.push_back({4.0 - 0.1 * i, 10.0 + 2.0 * i});
  REQUIRE(MetricPerLoss(pairs).has_value());
  CHECK(MetricPerLoss(pairs)->median == Approx(20.0));
  pairs[9].y = 500.0;
  CHECK(MetricPerLoss(pairs)->median == Approx(20.0));
  pairs.resize(2);
  CHECK_FALSE(MetricPerLoss(pairs).has_value());
}

TEST_CASE("the noise of a curve is about that which was put into it") {
  RandomStream random({.seed = 5});
  const auto clean = [](double x) { return 2.0 + 20.0 * std::pow(x, -0.5); };
  // Uniform within +-0.05 has a standard deviation of 0.029.
  const auto noisy = Curve(300, 1e5, [&](double x) { return clean(x) + 0.05 * Noise(random); });
  CHECK(NoiseOfCurve(noisy) == Approx(0.029).epsilon(0.25));
  CHECK(NoiseOfCurve(Curve(300, 1e5, clean)) < 0.001);
  CHECK(std::isnan(NoiseOfCurve(Curve(3, 1e5, clean))));
}

TEST_CASE("a spike stands out above the records before it, noise does not") {
  RandomStream random({.seed = 3});
  std::vector<double> losses;
  for (int i = 0; i < 400; ++i) losses.push_back(4.0 - 0.005 * i + 0.03 * Noise(random));
  CHECK(FindSpikes(losses).empty());
  losses[200] += 1.5;
  losses[300] = kNaN;
  CHECK(FindSpikes(losses) == std::vector<size_t>{200, 300});
}

TEST_CASE("smoothing neither lags nor lifts a falling curve") {
  std::vector<double> falling;
  for (int i = 0; i < 1000; ++i) falling.push_back(1000.0 - i);
  const std::vector<double> smoothed = Smoothed(falling);
  for (size_t i = 0; i < falling.size(); ++i) CHECK(smoothed[i] == Approx(falling[i]));
  CHECK(Smoothed({}).empty());
  const std::vector<double> hole = {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 1.0};
  CHECK(std::isnan(Smoothed(hole).front()));
  CHECK(Smoothed(hole).back() == 1.0);
}

TEST_CASE("a huge value spoils only the means that it is part of") {
  std::vector<double> values(2000, 1.0);
  values[1000] = 1e20;
  const std::vector<double> smoothed = Smoothed(values);
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(i);
    // A mean is of 30 values to each side.
    if (i >= 970 && i <= 1030) {
      CHECK(smoothed[i] > 1e18);
    } else {
      CHECK(smoothed[i] == 1.0);
    }
  }
}

TEST_CASE("a mean is that of the finite values around, at any length of a curve") {
  RandomStream random({.seed = 4});
  for (const size_t n : {1u, 2u, 5u, 6u, 11u, 300u, 1237u}) {
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i) values.push_back(i % 7 == 3 ? kNaN : Noise(random));
    const std::vector<double> smoothed = Smoothed(values);
    const size_t half = std::max<size_t>(2, n * 3 / 200);
    for (size_t i = 0; i < n; ++i) {
      INFO(i << " of " << n);
      const size_t reach = std::min({half, i, n - 1 - i});
      double sum = 0.0;
      int count = 0;
      for (size_t k = i - reach; k <= i + reach; ++k) {
        if (!std::isfinite(values[k])) continue;
        sum += values[k];
        ++count;
      }
      if (count == 0) {
        CHECK(std::isnan(smoothed[i]));
      } else {
        CHECK(smoothed[i] == Approx(sum / count).margin(1e-12));
      }
    }
  }
}

TEST_CASE("a spike of one record survives thinning, and so does a value that is no number") {
  std::vector<double> values(100000, 1.0);
  values[31234] = 9.0;
  values[31235] = -9.0;
  values[70001] = kNaN;
  const std::vector<size_t> places = PlacesToDraw(values, 400);
  CHECK(places.size() <= 3 * 400 + 2);
  CHECK(std::is_sorted(places.begin(), places.end()));
  for (const size_t place : {0u, 31234u, 31235u, 70001u, 99999u}) {
    CHECK(std::binary_search(places.begin(), places.end(), place));
  }
  CHECK(PlacesToDraw(std::vector<double>(800, 1.0), 400).size() == 800);
  CHECK(PlacesToDraw({}, 400).empty());
}

TEST_CASE("Young's interval for a checkpoint of 30 seconds and a failure a day is 38 minutes") {
  CHECK(YoungInterval(30.0, 86400.0) == Approx(2277.0).epsilon(0.001));
}

}  // namespace
}  // namespace dtrain
