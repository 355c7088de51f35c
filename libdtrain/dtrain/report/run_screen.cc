// run_screen.cc - the numbers of a report, in the order in which people look for them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/period.h"
#include "dtrain/base/printable.h"
#include "dtrain/report/number_text.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

constexpr size_t kMostBytes = 1000;  // of a line
constexpr size_t kMostRanks = 16;

// "a, b" of the parts that are not empty.
std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  }
  return text;
}

std::string StateLine(const RunReport& report) {
  const RunFacts& run = report.run;
  const double most = run.Number("trainer.max_steps");
  std::string updates = "update " + Thousands(static_cast<double>(run.updates()));
  if (most > 0.0) {
    absl::StrAppend(&updates, " of ", Thousands(most), " (",
                    PercentText(static_cast<double>(run.updates()) / most), ")");
  }
  const double left = run.status.state == "running" ? SecondsLeft(report) : kNoNumber;
  return absl::StrCat(run.name, "  ",
                      run.status.state.empty() ? "state not known" : run.status.state, "  ",
                      Joined({updates, DurationText(run.seconds()),
                              std::isfinite(left) ? "about " + DurationText(left) + " left" : ""}));
}

std::string LossLine(const RunFacts& run, size_t width, bool use_unicode) {
  if (run.steps.empty()) return "loss   no records yet";
  std::vector<double> losses;
  for (const StepFacts& step : run.steps) losses.push_back(step.loss);
  const StepFacts& last = run.steps.back();
  return absl::StrCat("loss   ", Sparkline(losses, width, use_unicode), "  ",
                      FixedNumber(last.loss, 3), "  lr ",
                      absl::StrFormat("%.3g", last.learning_rate), "  gradient norm ",
                      ShortNumber(last.gradient_norm));
}

std::string DevLine(const RunReport& report, size_t width, bool use_unicode) {
  const std::string score = ScoreText(report);
  if (score.empty()) return "dev    no evaluation yet";
  std::vector<double> values;
  for (const CurvePoint& point : EvaluationCurve(report.run, report.metric.key)) {
    values.push_back(point.y);
  }
  std::string best;
  for (const EvaluationFacts& evaluation : report.run.evaluations) {
    if (!evaluation.is_best) continue;
    best = absl::StrCat("  best ",
                        FixedNumber(evaluation.Metric(report.metric.key) * report.metric.scale,
                                    report.metric.decimals),
                        " at ", Thousands(static_cast<double>(evaluation.step)));
  }
  return absl::StrCat("dev    ", Sparkline(values, width, use_unicode), "  ", score, best);
}

std::string SpeedLine(const RunReport& report) {
  const RunNumbers& numbers = report.numbers;
  if (!std::isfinite(numbers.step_ms)) return "";
  std::string text =
      absl::StrCat("speed  ", ShortNumber(numbers.step_ms), " ms an update, ",
                   ShortNumber(numbers.tokens_per_second), " tokens a second, waits ",
                   PercentText(numbers.data_share), " for data");
  if (numbers.ranks > 1) {
    absl::StrAppend(&text, ", ", PercentText(numbers.comm_share), " for gradients");
  }
  return text;
}

// The width of a phase's column.
int ColumnOf(std::string_view name) { return std::max(7, static_cast<int>(name.size())); }

// Seconds of each rank in the last record. A terminal of 80 columns holds them.
void AddRanks(const RunFacts& run, std::vector<std::string>& lines) {
  if (run.phases.empty()) return;
  const RankFacts& last = run.phases.back();
  std::string head = "rank ";
  for (const std::string_view name : recorded::kPhaseNames) {
    absl::StrAppendFormat(&head, " %*s", ColumnOf(name), ToAbsl(name));
  }
  lines.push_back(head);
  for (size_t rank = 0; rank < std::min(kMostRanks, last.ranks.size()); ++rank) {
    std::string line = absl::StrFormat("%4d ", rank);
    for (size_t i = 0; i < recorded::kPhaseNames.size(); ++i) {
      absl::StrAppendFormat(&line, " %*.2f", ColumnOf(recorded::kPhaseNames[i]),
                            last.ranks[rank][i]);
    }
    lines.push_back(line);
  }
  if (last.ranks.size() > kMostRanks) {
    lines.push_back(absl::StrFormat("     ... of %d ranks", last.ranks.size()));
  }
}

// The host's use since the sample before.
std::string HostLine(const RunFacts& run) {
  if (run.host.size() < 2) return "";
  const HostFacts& last = run.host.back();
  const HostFacts& before = run.host[run.host.size() - 2];
  const double seconds = last.time - before.time;
  double sent = 0.0;
  for (const HostFacts::Network& network : last.networks) {
    for (const HostFacts::Network& same : before.networks) {
      if (same.name == network.name && network.sent > same.sent) sent += network.sent - same.sent;
    }
  }
  const double busy = (last.cpu_busy - before.cpu_busy) / (last.cpu_total - before.cpu_total);
  return absl::StrCat("host   processors ", PercentText(busy), ", memory free ",
                      BytesText(last.memory_available), ", sends ",
                      BytesText(seconds > 0.0 ? sent / seconds : 0.0), " a second");
}

}  // namespace

std::string Sparkline(std::span<const double> values, size_t width, bool use_unicode) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array kLetters = {"_", ".", ",", "-", "~", "=", "*", "#"};
  double low = kNoNumber;
  double high = kNoNumber;
  std::vector<double> means;
  const size_t places = std::min(width, values.size());
  for (size_t i = 0; i < places; ++i) {
    double sum = 0.0;
    double count = 0.0;
    for (size_t k = i * values.size() / places; k < (i + 1) * values.size() / places; ++k) {
      if (!std::isfinite(values[k])) continue;
      sum += values[k];
      ++count;
    }
    means.push_back(count > 0.0 ? sum / count : kNoNumber);
    if (!std::isfinite(means.back())) continue;
    if (!(low <= means.back())) low = means.back();
    if (!(high >= means.back())) high = means.back();
  }
  if (!std::isfinite(low)) return "";
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += ' ';
      continue;
    }
    const double level = high > low ? (mean - low) / (high - low) : 0.0;
    const auto at = static_cast<size_t>(std::lround(level * 7.0));
    line += use_unicode ? kBlocks[at] : kLetters[at];
  }
  return line;
}

double SecondsLeft(const RunReport& report) {
  const RunFacts& run = report.run;
  double left = kNoNumber;
  const auto include = [&](double seconds) {
    if (std::isfinite(seconds) && !(left <= seconds)) left = std::max(0.0, seconds);
  };
  const double most = run.Number("trainer.max_steps");
  if (most > 0.0) {
    include((most - static_cast<double>(run.updates())) * report.numbers.step_ms / 1e3);
  }
  const StatusOr<double> time = ParseDuration(run.Setting("trainer.max_time"));
  if (time.ok() && *time > 0.0) include(*time - run.seconds());
  return left;
}

std::vector<std::string> RunScreen(const RunReport& report, const ScreenOptions& options) {
  const RunFacts& run = report.run;
  const size_t width = options.columns > 70 ? std::min<size_t>(options.columns - 60, 60) : 10;
  std::vector<std::string> lines = {StateLine(report), LossLine(run, width, options.use_unicode),
                                    DevLine(report, width, options.use_unicode)};
  for (const std::string& line : {SpeedLine(report), HostLine(run)}) {
    if (!line.empty()) lines.push_back(line);
  }
  AddRanks(run, lines);
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.level > VerdictLevel::kWarn) continue;
    lines.push_back(absl::StrCat(verdict.level == VerdictLevel::kBad ? "x " : "! ", verdict.title,
                                 ": ", verdict.text));
  }
  constexpr size_t kEvents = 5;
  for (size_t i = run.events.size() - std::min(kEvents, run.events.size()); i < run.events.size();
       ++i) {
    lines.push_back(
        absl::StrFormat("%s @%d: %s", run.events[i].kind, run.events[i].step, run.events[i].text));
  }
  if (lines.size() > options.rows) lines.resize(options.rows);
  // Names and events come from files, which may hold anything.
  for (std::string& line : lines) line = Printable(line, kMostBytes);
  return lines;
}

}  // namespace dtrain
