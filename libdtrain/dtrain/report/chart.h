// chart.h - a curve as a picture that is complete without script, and its data for the script.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_CHART_H_
#define DTRAIN_REPORT_CHART_H_

#include <string>
#include <utility>
#include <vector>

#include "dtrain/report/run_facts.h"
#include "dtrain/report/statistics.h"

namespace dtrain {

// Places on all three axes, which a reader chooses from.
struct ChartPlaces {
  std::vector<double> step = {};
  std::vector<double> tokens = {};
  std::vector<double> time = {};  // seconds of training
};

struct ChartSeries {
  std::string name = {};
  std::string look = "s1";  // s1 to s5, or raw for single records under a smoothed curve
  bool dots = false;
  ChartPlaces places = {};
  std::vector<double> y = {};  // NaN breaks the line and is marked
};

// A dotted vertical line with words.
struct ChartMark {
  double step = 0.0;
  double tokens = 0.0;
  double time = 0.0;
  std::string text = {};
};

// A dashed horizontal line with words.
struct ChartLimit {
  double y = 0.0;
  std::string text = {};
};

struct Chart {
  std::string id = {};  // ours, never a text of a run
  std::string title = {};
  std::string unit = {};  // behind a value: " ms"
  std::string note = {};
  std::vector<ChartSeries> series = {};
  std::vector<ChartMark> marks = {};
  std::vector<ChartLimit> limits = {};
  bool zero = false;     // the axis begins at 0
  bool can_log = false;  // logarithmic if the reader wants
  double calm = 0.0;     // share of the x axis whose values may leave the picture at the top
};

// Turns updates into places on all axes.
class RunAxes {
 public:
  explicit RunAxes(const RunFacts& run);

  ChartPlaces At(const std::vector<double>& steps) const;
  ChartMark Mark(double step, const std::string& text) const;

 private:
  std::vector<CurvePoint> tokens_;
  std::vector<CurvePoint> seconds_;
};

// At most `buckets` times three points of the values at these updates.
ChartSeries MakeSeries(const RunAxes& axes, const std::vector<double>& steps,
                       const std::vector<double>& values, size_t buckets);

// A figure. If no series has a number, it says that nothing is recorded.
std::string ChartHtml(const Chart& chart);
// The area that curves do not leave; once in a page that has charts.
std::string PlotAreaSvg();
// The geometry and all charts that ChartHtml() made a picture of, for JsonForScript().
std::string ChartsJson(const std::vector<Chart>& charts);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_CHART_H_
