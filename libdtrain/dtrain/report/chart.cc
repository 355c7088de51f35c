// chart.cc - draws curves as SVG, with ticks at round numbers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/report/html.h"
#include "dtrain/report/number_text.h"

namespace dtrain {
namespace {

// The picture in units of its own, and the margins around its curves.
struct Frame {
  double width = 560.0;
  double height = 232.0;
  double left = 50.0;
  double right = 12.0;
  double top = 10.0;
  double bottom = 26.0;

  double end() const { return width - right; }
  double floor() const { return height - bottom; }
};
constexpr Frame kFrame;

bool IsDrawn(const ChartSeries& series) {
  return std::any_of(series.y.begin(), series.y.end(), [](double y) { return std::isfinite(y); });
}

bool IsDrawn(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [](const ChartSeries& series) { return IsDrawn(series); });
}

// Where values lie in the picture. report.js has the same formulas.
class Scale {
 public:
  explicit Scale(const Chart& chart) {
    for (const ChartSeries& series : chart.series) {
      for (const double x : series.places.step) x_.Include(x);
    }
    const double calm = x_.low + chart.calm * (x_.high - x_.low);
    for (const ChartSeries& series : chart.series) {
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!std::isfinite(series.y[i])) continue;
        y_.low = std::min(y_.low, series.y[i]);
        if (series.places.step[i] >= calm) y_.high = std::max(y_.high, series.y[i]);
      }
    }
    for (const ChartLimit& limit : chart.limits) y_.Include(limit.y);
    y_.high = std::max(y_.high, y_.low);
    double margin = 0.06 * (y_.high - y_.low);
    if (margin == 0.0) margin = 0.05 * std::abs(y_.high);
    if (margin == 0.0) margin = 1.0;
    y_.low = chart.zero ? 0.0 : y_.low - margin;
    y_.high += margin;
  }

  struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    void Include(double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    double Share(double value) const { return high > low ? (value - low) / (high - low) : 0.0; }
  };
  const Range& x() const { return x_; }
  const Range& y() const { return y_; }
  double X(double value) const {
    return kFrame.left + x_.Share(value) * (kFrame.end() - kFrame.left);
  }
  double Y(double value) const {
    return kFrame.floor() - y_.Share(value) * (kFrame.floor() - kFrame.top);
  }

 private:
  Range x_;
  Range y_;
};

// About `count` round numbers of the range.
std::vector<double> Ticks(const Scale::Range& range, int count) {
  if (!(range.high > range.low)) return {range.low};
  const double raw = (range.high - range.low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (raw <= factor * power * 1.0001) step = factor * power;
  }
  const double first = std::ceil(range.low / step - 1e-9);
  std::vector<double> ticks;
  for (int i = 0; i < 50; ++i) {
    const double tick = (first + i) * step;
    if (!(tick <= range.high + 1e-9 * step)) break;
    ticks.push_back(std::abs(tick) < 1e-9 * step ? 0.0 : tick);
  }
  return ticks;
}

std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return absl::StrFormat("%.4g M", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.4g k", value / 1e3);
  return absl::StrFormat("%.5g", value);
}

void DrawAxes(const Scale& scale, std::string& svg) {
  for (const double tick : Ticks(scale.y(), 4)) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%g %.1fH%g\"/><text class=\"tick\" x=\"%g\" "
                          "y=\"%.1f\" text-anchor=\"end\">%s</text>",
                          kFrame.left, scale.Y(tick), kFrame.end(), kFrame.left - 6.0,
                          scale.Y(tick) + 4.0, TickText(tick));
  }
  for (const double tick : Ticks(scale.x(), 5)) {
    if (scale.X(tick) > kFrame.width - 74.0) continue;  // there stands the name of the axis
    absl::StrAppendFormat(
        &svg, "<text class=\"tick\" x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%s</text>",
        scale.X(tick), kFrame.height - 8.0, TickText(tick));
  }
  absl::StrAppendFormat(&svg,
                        "<text class=\"tick\" x=\"%g\" y=\"%g\" text-anchor=\"end\">updates</text>",
                        kFrame.end(), kFrame.height - 8.0);
}

void DrawLines(const Chart& chart, const Scale& scale, std::string& svg) {
  for (const ChartMark& mark : chart.marks) {
    const double x = scale.X(mark.step);
    const bool is_left = x < kFrame.width / 2.0;
    absl::StrAppendFormat(&svg,
                          "<path class=\"mark\" d=\"M%.1f %gV%g\"/><text class=\"mark-text\" "
                          "x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">%s</text>",
                          x, kFrame.top, kFrame.floor(), x + (is_left ? 5.0 : -5.0),
                          kFrame.top + 11.0, is_left ? "start" : "end", Html(mark.text));
  }
  for (const ChartLimit& limit : chart.limits) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"limit\" d=\"M%g %.1fH%g\"/><text class=\"mark-text\" "
                          "x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                          kFrame.left, scale.Y(limit.y), kFrame.end(), kFrame.end() - 4.0,
                          scale.Y(limit.y) - 5.0, Html(limit.text));
  }
}

void DrawSeries(const ChartSeries& series, const Scale& scale, std::string& svg) {
  std::string path;
  std::string dots;
  bool is_down = false;
  for (size_t i = 0; i < series.y.size(); ++i) {
    const double x = scale.X(series.places.step[i]);
    if (!std::isfinite(series.y[i])) {
      is_down = false;
      absl::StrAppendFormat(&svg, "<path class=\"broken\" d=\"M%.1f %gh8l-4 7z\"/>", x - 4.0,
                            kFrame.top + 1.0);
      continue;
    }
    const double y = scale.Y(series.y[i]);
    absl::StrAppendFormat(&path, "%c%.1f %.1f", is_down ? 'L' : 'M', x, y);
    is_down = true;
    if (series.dots && y >= kFrame.top) {
      absl::StrAppendFormat(&dots, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\"/>",
                            series.look, x, y);
    }
  }
  absl::StrAppendFormat(&svg, "<path class=\"line %s\" d=\"%s\" clip-path=\"url(#plot-area)\"/>%s",
                        series.look, path, dots);
}

// "Loss. training: 4.5 to 1.9. dev: 4.4 to 2.1."
std::string LabelOf(const Chart& chart) {
  std::string label = chart.title + ".";
  for (const ChartSeries& series : chart.series) {
    if (!IsDrawn(series) || series.look == "raw") continue;
    const auto is_finite = [](double y) { return std::isfinite(y); };
    const double first = *std::find_if(series.y.begin(), series.y.end(), is_finite);
    const double last = *std::find_if(series.y.rbegin(), series.y.rend(), is_finite);
    absl::StrAppend(&label, " ", series.name, ": ", ShortNumber(first), " to ", ShortNumber(last),
                    chart.unit, ".");
  }
  return label;
}

std::string KeysOf(const Chart& chart) {
  std::string keys = "<span class=\"keys\">";
  for (const ChartSeries& series : chart.series) {
    if (!IsDrawn(series)) continue;
    absl::StrAppendFormat(
        &keys,
        "<span class=\"key %s\"><svg viewBox=\"0 0 26 10\" width=\"26\" height=\"10\" "
        "aria-hidden=\"true\"><path class=\"line %s\" d=\"M0 5H26\"/>%s</svg>%s</span>",
        series.look, series.look,
        series.dots ? "<circle class=\"dot " + series.look + "\" cx=\"13\" cy=\"5\" r=\"3.4\"/>"
                    : "",
        Html(series.name));
  }
  return keys + "</span>";
}

std::string ArrayJson(const std::vector<double>& values, const char* format) {
  return "[" +
         absl::StrJoin(values, ",",
                       [&](std::string* out, double value) {
                         if (!std::isfinite(value)) {
                           out->append("null");
                         } else if (*format == 'i') {
                           absl::StrAppendFormat(out, "%.0f", value);
                         } else {
                           absl::StrAppendFormat(out, "%.5g", value);
                         }
                       }) +
         "]";
}

std::string SeriesJson(const ChartSeries& series) {
  return absl::StrCat("{\"name\":", JsonQuoted(series.name), ",\"look\":", JsonQuoted(series.look),
                      ",\"dots\":", series.dots ? "true" : "false",
                      ",\"step\":", ArrayJson(series.places.step, "i"),
                      ",\"tokens\":", ArrayJson(series.places.tokens, "i"),
                      ",\"time\":", ArrayJson(series.places.time, "g"),
                      ",\"y\":", ArrayJson(series.y, "g"), "}");
}

std::string ChartJson(const Chart& chart) {
  std::vector<std::string> series;
  for (const ChartSeries& one : chart.series) {
    if (IsDrawn(one)) series.push_back(SeriesJson(one));
  }
  std::vector<std::string> marks;
  for (const ChartMark& mark : chart.marks) {
    marks.push_back(absl::StrFormat("{\"step\":%.0f,\"tokens\":%.0f,\"time\":%.5g,\"text\":%s}",
                                    mark.step, mark.tokens, mark.time, JsonQuoted(mark.text)));
  }
  std::vector<std::string> limits;
  for (const ChartLimit& limit : chart.limits) {
    limits.push_back(absl::StrFormat("{\"y\":%.6g,\"text\":%s}", limit.y, JsonQuoted(limit.text)));
  }
  return absl::StrFormat(
      "{\"unit\":%s,\"zero\":%s,\"canLog\":%s,\"calm\":%g,\"series\":[%s],\"marks\":[%s],"
      "\"limits\":[%s]}",
      JsonQuoted(chart.unit), chart.zero ? "true" : "false", chart.can_log ? "true" : "false",
      chart.calm, absl::StrJoin(series, ","), absl::StrJoin(marks, ","),
      absl::StrJoin(limits, ","));
}

}  // namespace

RunAxes::RunAxes(const RunFacts& run) {
  tokens_.push_back({0.0, 0.0});
  seconds_.push_back({0.0, 0.0});
  for (const StepFacts& step : run.steps) {
    tokens_.push_back({static_cast<double>(step.step), step.target_tokens});
    seconds_.push_back({static_cast<double>(step.step), step.seconds});
  }
}

ChartPlaces RunAxes::At(const std::vector<double>& steps) const {
  ChartPlaces places{.step = steps};
  for (const double step : steps) {
    places.tokens.push_back(Interpolated(tokens_, step));
    places.time.push_back(Interpolated(seconds_, step));
  }
  return places;
}

ChartMark RunAxes::Mark(double step, const std::string& text) const {
  return {step, Interpolated(tokens_, step), Interpolated(seconds_, step), text};
}

ChartSeries MakeSeries(const RunAxes& axes, const std::vector<double>& steps,
                       const std::vector<double>& values, size_t buckets) {
  ChartSeries series;
  std::vector<double> kept;
  for (const size_t place : PlacesToDraw(values, buckets)) {
    kept.push_back(steps[place]);
    series.y.push_back(values[place]);
  }
  series.places = axes.At(kept);
  return series;
}

std::string ChartHtml(const Chart& chart) {
  std::string html = absl::StrFormat("<figure class=\"chart\" id=\"c-%s\"><figcaption><b>%s</b>",
                                     chart.id, Html(chart.title));
  if (!IsDrawn(chart)) {
    return html + "</figcaption><p class=\"none\">Not recorded in this run.</p></figure>\n";
  }
  const Scale scale(chart);
  absl::StrAppendFormat(
      &html,
      "%s</figcaption><div class=\"plot\" data-chart=\"%s\" tabindex=\"0\" role=\"img\" "
      "aria-label=\"%s\"><svg viewBox=\"0 0 %g %g\" aria-hidden=\"true\">",
      KeysOf(chart), chart.id, Html(LabelOf(chart)), kFrame.width, kFrame.height);
  DrawAxes(scale, html);
  DrawLines(chart, scale, html);
  for (const ChartSeries& series : chart.series) {
    if (IsDrawn(series)) DrawSeries(series, scale, html);
  }
  html += "</svg></div>";
  if (!chart.note.empty()) absl::StrAppend(&html, "<p class=\"quiet\">", Html(chart.note), "</p>");
  return html + "</figure>\n";
}

std::string PlotAreaSvg() {
  // Dots on the edge keep their upper half.
  constexpr double kDot = 4.0;
  return absl::StrFormat(
      "<svg class=\"hide\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><clipPath "
      "id=\"plot-area\"><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/></clipPath></defs>"
      "</svg>\n",
      kFrame.left, kFrame.top - kDot, kFrame.end() - kFrame.left,
      kFrame.floor() - kFrame.top + 2.0 * kDot);
}

std::string ChartsJson(const std::vector<Chart>& charts) {
  std::vector<std::string> drawn;
  for (const Chart& chart : charts) {
    if (IsDrawn(chart)) drawn.push_back(JsonQuoted(chart.id) + ":" + ChartJson(chart));
  }
  return absl::StrFormat(
      "{\"frame\":{\"width\":%g,\"height\":%g,\"left\":%g,\"right\":%g,\"top\":%g,\"bottom\":%g},"
      "\"charts\":{%s}}",
      kFrame.width, kFrame.height, kFrame.left, kFrame.right, kFrame.top, kFrame.bottom,
      absl::StrJoin(drawn, ","));
}

}  // namespace dtrain
