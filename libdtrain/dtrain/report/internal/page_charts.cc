// page_charts.cc - which curves of a run are shown, and with which marks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/report/internal/page_parts.h"
#include "dtrain/report/limits.h"
#include "dtrain/report/number_text.h"
#include "dtrain/runs/record_names.h"

namespace dtrain::internal {
namespace {

// The first 6 % of a loss curve may leave the picture; else the part that matters is flat.
constexpr double kCalm = 0.06;

struct StepCurve {
  std::vector<double> steps = {};
  std::vector<double> values = {};
};

StepCurve CurveOf(const RunFacts& run, double StepFacts::*field, double factor = 1.0) {
  StepCurve curve;
  for (const StepFacts& step : run.steps) {
    curve.steps.push_back(static_cast<double>(step.step));
    curve.values.push_back(step.*field * factor);
  }
  return curve;
}

// A curve, and its single records below it.
void AddSmoothed(const RunAxes& axes, const StepCurve& curve, const std::string& name,
                 const std::string& look, size_t buckets, Chart& chart) {
  ChartSeries raw = MakeSeries(axes, curve.steps, curve.values, buckets);
  raw.name = "single records";
  raw.look = "raw";
  chart.series.push_back(std::move(raw));
  // A smooth curve needs few points.
  ChartSeries smooth = MakeSeries(axes, curve.steps, Smoothed(curve.values), buckets / 4);
  smooth.name = name;
  smooth.look = look;
  chart.series.push_back(std::move(smooth));
}

ChartSeries EvaluationSeries(const RunAxes& axes, const RunFacts& run, std::string_view key,
                             double scale) {
  ChartSeries series{.look = "s2", .dots = true};
  std::vector<double> steps;
  for (const EvaluationFacts& evaluation : run.evaluations) {
    const bool has_metric = std::any_of(evaluation.metrics.begin(), evaluation.metrics.end(),
                                        [&](const auto& metric) { return metric.first == key; });
    if (!has_metric) continue;
    steps.push_back(static_cast<double>(evaluation.step));
    series.y.push_back(scale * evaluation.Metric(key));
  }
  // Ten thousand evaluations are more than a picture shows.
  constexpr size_t kMost = 300;
  std::vector<double> kept;
  std::vector<double> values;
  for (const size_t place : PlacesToDraw(series.y, kMost)) {
    kept.push_back(steps[place]);
    values.push_back(series.y[place]);
  }
  series.places = axes.At(kept);
  series.y = std::move(values);
  return series;
}

std::vector<ChartMark> RestartMarks(const RunReport& report, const RunAxes& axes) {
  // More would hide the curve.
  constexpr size_t kMost = 12;
  std::vector<ChartMark> marks;
  const std::vector<int64_t>& resumes = report.numbers.resumes;
  for (size_t i = 0; i < std::min(resumes.size(), kMost); ++i) {
    marks.push_back(axes.Mark(static_cast<double>(resumes[i]), i == 0 ? "went on" : ""));
  }
  return marks;
}

Chart LossChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{.id = "loss",
              .title = "Loss",
              .note =
                  "The training curve has dropout and, where it is set, label smoothing: it "
                  "cannot be compared with the dev curve.",
              .marks = RestartMarks(report, axes),
              .can_log = true,
              .calm = kCalm};
  AddSmoothed(axes, CurveOf(report.run, &StepFacts::loss), "training", "s1", buckets, chart);
  ChartSeries dev = EvaluationSeries(axes, report.run, report.numbers.loss_key, 1.0);
  dev.name = "dev set (" + report.numbers.loss_key + ")";
  chart.series.push_back(std::move(dev));
  ChartSeries sample = EvaluationSeries(
      axes, report.run, recorded::kTrainSamplePrefix + report.numbers.loss_key, 1.0);
  if (!sample.y.empty()) {
    sample.name = "training sample, measured like the dev set";
    sample.look = "s3";
    chart.series.push_back(std::move(sample));
  }
  return chart;
}

Chart MetricChart(const RunReport& report, const RunAxes& axes) {
  const ShownMetric& metric = report.metric;
  Chart chart{.id = "metric", .title = "Dev set: " + metric.name};
  ChartSeries series = EvaluationSeries(axes, report.run, metric.key, metric.scale);
  series.name = metric.name;
  double best_step = kNoNumber;
  for (const EvaluationFacts& evaluation : report.run.evaluations) {
    if (evaluation.is_best) best_step = static_cast<double>(evaluation.step);
  }
  if (std::isfinite(best_step)) chart.marks.push_back(axes.Mark(best_step, "best"));
  chart.series.push_back(std::move(series));
  return chart;
}

Chart RateChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{.id = "rate",
              .title = "Learning rate",
              .note = LearningRateWords(report.run, report.numbers),
              .zero = true,
              .can_log = true};
  const StepCurve curve = CurveOf(report.run, &StepFacts::learning_rate);
  ChartSeries series = MakeSeries(axes, curve.steps, curve.values, buckets / 2);
  series.name = "learning rate";
  chart.series.push_back(std::move(series));
  const double warmup = report.numbers.warmup_updates;
  if (warmup > 0.0 && warmup <= static_cast<double>(report.run.updates())) {
    chart.marks.push_back(axes.Mark(warmup, "end of warm-up"));
  }
  return chart;
}

Chart NormChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{.id = "norm", .title = "Gradient norm, before clipping", .zero = true, .calm = kCalm};
  AddSmoothed(axes, CurveOf(report.run, &StepFacts::gradient_norm), "norm", "s4", buckets, chart);
  const double clip = report.run.Number("optimizer.clip_norm");
  if (clip > 0.0) chart.limits.push_back({clip, absl::StrFormat("clip_norm %g", clip)});
  return chart;
}

Chart StepChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{
      .id = "step", .title = "Time of an update in ms", .unit = " ms", .zero = true, .calm = kCalm};
  AddSmoothed(axes, CurveOf(report.run, &StepFacts::step_ms), "update", "s1", buckets, chart);
  return chart;
}

Chart WaitChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{.id = "wait",
              .title = "Share of an update that rank 0 waits, in %",
              .unit = " %",
              .zero = true,
              .calm = kCalm};
  const StepCurve gradients = CurveOf(report.run, &StepFacts::comm_share, 100.0);
  const StepCurve data = CurveOf(report.run, &StepFacts::data_share, 100.0);
  if (report.numbers.ranks > 1) {
    AddSmoothed(axes, gradients, "for gradients", "s3", buckets / 2, chart);
    chart.limits.push_back({100.0 * limits::kNetworkBad, "bottleneck"});
  }
  ChartSeries waiting = MakeSeries(axes, data.steps, Smoothed(data.values), buckets / 4);
  waiting.name = "for data";
  waiting.look = "s5";
  chart.series.push_back(std::move(waiting));
  return chart;
}

Chart SpeedChart(const RunReport& report, const RunAxes& axes, size_t buckets) {
  Chart chart{.id = "speed", .title = "Target tokens a second", .zero = true};
  AddSmoothed(axes, CurveOf(report.run, &StepFacts::target_tokens_per_second), "target tokens",
              "s4", buckets, chart);
  return chart;
}

}  // namespace

std::vector<Chart> RunCharts(const RunReport& report, size_t buckets) {
  const RunAxes axes(report.run);
  return {LossChart(report, axes, buckets),     MetricChart(report, axes),
          RateChart(report, axes, buckets),     NormChart(report, axes, buckets),
          StepChart(report, axes, buckets),     WaitChart(report, axes, buckets),
          SpeedChart(report, axes, buckets / 2)};
}

std::vector<Chart> ComparedCharts(std::span<const RunReport> reports, size_t buckets) {
  constexpr std::array kLooks = {"s1", "s2", "s3", "s4", "s5"};
  Chart loss{
      .id = "compared-loss", .title = "Training loss, smoothed", .can_log = true, .calm = kCalm};
  const ShownMetric& metric = reports.front().metric;
  Chart score{.id = "compared-metric", .title = "Dev set: " + metric.name};
  Chart step{
      .id = "compared-step", .title = "Time of an update in ms", .unit = " ms", .zero = true};
  const std::vector<std::string> names = RunNames(reports);
  // Curves beyond the first five could not be told apart.
  for (size_t i = 0; i < std::min(reports.size(), kLooks.size()); ++i) {
    const RunFacts& run = reports[i].run;
    const RunAxes axes(run);
    const auto add = [&](Chart& chart, const StepCurve& curve) {
      ChartSeries series = MakeSeries(axes, curve.steps, Smoothed(curve.values), buckets);
      series.name = names[i];
      series.look = kLooks[i];
      chart.series.push_back(std::move(series));
    };
    add(loss, CurveOf(run, &StepFacts::loss));
    add(step, CurveOf(run, &StepFacts::step_ms));
    ChartSeries evaluations = EvaluationSeries(axes, run, metric.key, metric.scale);
    evaluations.name = names[i];
    evaluations.look = kLooks[i];
    score.series.push_back(std::move(evaluations));
  }
  if (reports.size() > kLooks.size()) {
    loss.note = absl::StrCat("The first ", kLooks.size(), " of ", reports.size(), " runs.");
  }
  return {loss, score, step};
}

}  // namespace dtrain::internal
