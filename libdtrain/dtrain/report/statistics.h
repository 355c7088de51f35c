// statistics.h - robust statistics of curves: what a rule measures and what a picture shows.
// SPDX-License-Identifier: Apache-2.0
//
// All are deterministic: what is drawn at random has a fixed seed.
#ifndef DTRAIN_REPORT_STATISTICS_H_
#define DTRAIN_REPORT_STATISTICS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dtrain {

struct CurvePoint {
  double x = 0.0;
  double y = 0.0;
};

// NaN if there are none. No value may be NaN.
double Median(std::vector<double> values);

// Linear between the points, which are sorted by x and not empty; outside, the value of the end.
double Interpolated(std::span<const CurvePoint> points, double x);

// The gain of training half as long again, with a 90 % interval.
struct ExpectedGain {
  double gain = 0.0;
  double low = 0.0;
  double high = 0.0;
  double first_fall = 0.0;  // g1 and g2 below
  double second_fall = 0.0;
};

// Extrapolates a loss on a logarithmic axis, in windows that each make the training N 1.5 times as
// long. The last ends at T = `trusted` N:
//   g1 = L(4/9 T) - L(2/3 T), g2 = L(2/3 T) - L(T), r = g2 / g1 within 0 and 1
//   gain of N -> 1.5 N = g2 r^k, k = 1 + ln(N / T) / ln 1.5
// It is exact for L = E + A N^-a. A learning rate that falls to zero with the budget flattens the
// curve's end by itself, which says nothing of a longer budget: there take trusted = 2/3. The
// interval comes from 500 curves with noise of the standard deviation `deviation` added. Nothing is
// returned for fewer than four points, or if the first is later than 4/9 T.
std::optional<ExpectedGain> ExtrapolateLoss(std::span<const CurvePoint> points, double deviation,
                                            double trusted);

struct Slope {
  double median = 0.0;
  double low = 0.0;  // quartiles
  double high = 0.0;
};

// The worth of a fall of the loss by 1, in a metric: the median slope between all pairs of points
// (Theil and Sen). x are losses, y values of the metric, in the order of training; only the last
// two thirds count. Nothing for fewer than three points.
std::optional<Slope> MetricPerLoss(std::span<const CurvePoint> points);

// Standard deviation of a curve's noise: by how much points differ from the line between their
// neighbours, on a logarithmic x axis, in the last two thirds. A curve that bends counts as noise,
// so that the value is rather too large. NaN for fewer than four points.
double NoiseOfCurve(std::span<const CurvePoint> points);

// Places where a loss stands out above the values before it (limits.h), or is no finite number.
std::vector<size_t> FindSpikes(std::span<const double> losses);

// A centred mean over 1.5 % of the values to each side, narrower at the ends. An exponential mean
// lags: it lies above a falling curve. NaN where no value is finite.
std::vector<double> Smoothed(std::span<const double> values);

// Places of the values that a picture needs: of each of `buckets` parts the least and the largest,
// and one that is no finite number; the first and the last. So a spike of one record is never lost.
std::vector<size_t> PlacesToDraw(std::span<const double> values, size_t buckets);

// Young's interval between checkpoints, which wastes least time (CACM 17, 1974): sqrt(2 C F), for
// a checkpoint of C seconds and F seconds between failures.
double YoungInterval(double checkpoint_seconds, double failure_seconds);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_STATISTICS_H_
