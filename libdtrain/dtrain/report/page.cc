// page.cc - joins the sections of a page, and bounds its size.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/page.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/report/chart.h"
#include "dtrain/report/html.h"
#include "dtrain/report/internal/page_parts.h"
#include "dtrain/report/number_text.h"

namespace dtrain {
namespace {

using internal::Section;

// Of each curve at first, and at least; a page that is too long gets fewer.
constexpr size_t kMostBuckets = 400;
constexpr size_t kFewestBuckets = 12;
constexpr size_t kMaxPageBytes = 1'000'000;

std::string ChartsHtml(const std::vector<Chart>& charts) {
  std::string html = "<div class=\"charts\">";
  for (const Chart& chart : charts) html += ChartHtml(chart);
  return html + "</div>";
}

constexpr char kTools[] = R"(<form class="tools" hidden>
<fieldset><legend>Against</legend>
<label><input type="radio" name="axis" value="step" checked> updates</label>
<label><input type="radio" name="axis" value="tokens"> target tokens</label>
<label><input type="radio" name="axis" value="time"> training time</label></fieldset>
<label><input type="checkbox" name="log"> logarithmic loss and rate</label>
<label><input type="checkbox" name="raw" checked> single records</label></form>
)";

std::string Navigation(bool is_compared) {
  std::string html = "<nav aria-label=\"Sections\"><ul>";
  const auto add = [&](const char* id, const char* name) {
    absl::StrAppend(&html, "<li><a href=\"#", id, "\">", name, "</a></li>");
  };
  add("verdicts", "Verdicts");
  add("answers", "Questions");
  add("curves", "Curves");
  add("time", "Time");
  add("machines", "Machines");
  add("samples", "What it does now");
  add("data", "Data and model");
  if (is_compared) add("compare", "Compare");
  add("again", "Run it again");
  return html + "</ul></nav>\n";
}

std::string PageOf(std::span<const RunReport> reports, size_t buckets) {
  const RunReport& report = reports.front();
  const bool is_compared = reports.size() > 1;
  std::vector<Chart> charts = internal::RunCharts(report, buckets);
  const std::vector<Chart> host = internal::HostCharts(report, buckets / 2);
  internal::PageFrame frame{.title = report.run.name + " - report of a run"};
  std::string& body = frame.body;
  body = internal::HeaderPart(report) + Navigation(is_compared) + "<main id=\"main\">\n" +
         internal::VerdictsPart(report) +
         Section("answers", "What people ask", internal::AnswersPart(report)) +
         Section("curves", "Curves", kTools + ChartsHtml(charts)) +
         Section("time", "Where the time went", internal::TimePart(report)) +
         Section("machines", "Machines", ChartsHtml(host) + internal::MachinesPart(report)) +
         Section("samples", "What it does now", internal::SamplesPart(report)) +
         Section("data", "Data and model", internal::DataPart(report));
  charts.insert(charts.end(), host.begin(), host.end());
  if (is_compared) {
    const std::vector<Chart> compared = internal::ComparedCharts(reports, buckets / 4);
    body += Section("compare", "Compared with other runs",
                    internal::ComparePart(reports) + ChartsHtml(compared));
    charts.insert(charts.end(), compared.begin(), compared.end());
  }
  body += Section("again", "Run it again", internal::AgainPart(report));
  body +=
      "</main>\n<footer><p>Written by dtrain report. This page loads nothing from anywhere."
      "</p></footer>\n";
  frame.chart_data = ChartsJson(charts);
  return internal::WholePage(frame);
}

// The last value of the metric, as a table is sorted by it: the best first.
double SortValue(const RunReport& report) {
  const std::vector<CurvePoint> curve = EvaluationCurve(report.run, report.metric.key);
  if (curve.empty()) return -1e300;
  return report.metric.is_larger_better ? curve.back().y : -curve.back().y;
}

}  // namespace

namespace internal {

std::string Section(std::string_view id, std::string_view title, const std::string& body) {
  return absl::StrFormat("<section aria-labelledby=\"%s\"><h2 id=\"%s\">%s</h2>\n%s</section>\n",
                         ToAbsl(id), ToAbsl(id), Html(title), body);
}

std::string WholePage(const PageFrame& frame) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ",
      PolicySource(ReportStyleDigest()), "; script-src ", PolicySource(ReportScriptDigest()),
      "; base-uri 'none'; form-action 'none'\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      Html(frame.title), "</title>\n<style>", ToAbsl(ReportStyle()), "</style></head>\n<body>\n",
      "<a class=\"skip\" href=\"#main\">To the content</a>\n", PlotAreaSvg(), frame.body,
      "<div id=\"tip\" role=\"status\" aria-live=\"polite\" hidden></div>\n",
      "<script type=\"application/json\" id=\"chart-data\">", JsonForScript(frame.chart_data),
      "</script>\n<script>", ToAbsl(ReportScript()), "</script>\n</body></html>\n");
}

}  // namespace internal

std::string ReportPage(std::span<const RunReport> reports) {
  size_t buckets = kMostBuckets;
  std::string page = PageOf(reports, buckets);
  while (page.size() > kMaxPageBytes && buckets > kFewestBuckets) {
    buckets /= 2;
    page = PageOf(reports, buckets);
  }
  return page;
}

std::string IndexPage(const std::string& folder, std::span<const RunReport> reports) {
  const bool is_public = internal::IsPublic(reports);
  const std::vector<std::string> names = internal::RunNames(reports);
  std::vector<size_t> order(reports.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return SortValue(reports[a]) > SortValue(reports[b]);
  });
  std::vector<std::vector<Cell>> rows;
  for (const size_t i : order) {
    const RunReport& report = reports[i];
    const RunFacts& run = report.run;
    size_t changes = 0;
    for (const Verdict& verdict : report.verdicts) {
      if (verdict.level <= VerdictLevel::kWarn) ++changes;
    }
    rows.push_back(
        {{is_public ? names[i] : run.path},
         {internal::StateOf(report).word},
         {ScoreText(report), absl::StrFormat("%.9g", SortValue(report))},
         {Thousands(static_cast<double>(run.updates())), absl::StrFormat("%d", run.updates())},
         {DurationText(run.seconds()), absl::StrFormat("%.3f", run.seconds())},
         {absl::StrCat(changes)},
         {run.starts.empty() ? "" : run.starts.front().time}});
  }
  const std::string title = is_public ? "Runs" : "Runs in " + folder;
  internal::PageFrame frame{.title = title, .chart_data = "{\"charts\":{}}"};
  frame.body = absl::StrCat(
      "<header class=\"top\"><h1>", Html(title), "</h1><p class=\"quiet\">",
      CountOfThings(static_cast<double>(reports.size()), "run"),
      ". The heads of the table sort it.</p></header>\n<main id=\"main\">\n",
      TableHtml({"Run", "State", ">Score", ">Updates", ">Training time", ">To change", "Begun"},
                rows, {.name = "runs", .is_sortable = true}),
      reports.size() > 1
          ? Section("differ", "Settings that differ", internal::DifferingSettings(reports))
          : "",
      "</main>\n");
  return internal::WholePage(frame);
}

}  // namespace dtrain
