// page_tables.cc - where the time went, machines, samples, sizes, settings, and runs side by side.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/report/html.h"
#include "dtrain/report/internal/page_parts.h"
#include "dtrain/report/limits.h"
#include "dtrain/report/number_text.h"
#include "dtrain/report/row_intervals.h"

namespace dtrain::internal {
namespace {

constexpr char kNone[] = "<p class=\"none\">Not recorded in this run.</p>\n";

struct TimeShare {
  const char* name;
  double seconds;
  const char* fill;
};

// Times of updates include checkpoints, but no evaluations.
std::vector<TimeShare> TimeShares(const RunReport& report) {
  const RunNumbers& numbers = report.numbers;
  const double training = numbers.wall_seconds - numbers.evaluation_seconds;
  const auto part = [&](double share) { return std::isfinite(share) ? share * training : 0.0; };
  const double data = part(numbers.data_share);
  const double gradients = part(numbers.comm_share);
  const double rest = training - data - gradients - numbers.checkpoint_seconds;
  return {{"computing and what is hidden behind it", std::max(0.0, rest), "f1"},
          {"waiting for gradients", gradients, "f2"},
          {"waiting for data", data, "f5"},
          {"evaluations", numbers.evaluation_seconds, "f3"},
          {"checkpoints", numbers.checkpoint_seconds, "f4"}};
}

std::string SettingsTable(const Settings& settings, const std::string& caption,
                          const Settings& defaults) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [key, value] : settings) {
    rows.push_back({{key}, {value}, {SettingOf(defaults, key)}});
  }
  if (defaults.empty()) return TableHtml({"Setting", "Value"}, rows, {.caption = caption});
  return TableHtml({"Setting", "Value", "Default"}, rows, {.caption = caption});
}

// What a file of a checkpoint holds.
std::string HoldsText(const std::string& file) {
  struct Known {
    std::string_view name;
    const char* holds;
  };
  constexpr std::array kFiles = {
      Known{"model.safetensors", "weights, under their Hugging Face names"},
      Known{"optimizer.safetensors", "the optimizer's state, for Adam two moments a weight"},
      Known{"power_sgd.safetensors", "what PowerSGD keeps"},
      Known{"state.json", "place in the data, number of updates, best value"},
      Known{"config.textproto", "settings"},
      Known{"model.txt", "shape of the model"},
      Known{"training_data.txt", "sizes and checksum of the data"},
      Known{"MANIFEST", "size and checksum of each file and tensor"},
      Known{"COMPLETE", "checksum of MANIFEST; written last"}};
  for (const Known& known : kFiles) {
    if (known.name == file) return known.holds;
  }
  return file.starts_with("vocab") || file == "tokens.txt" ? "the vocabulary" : "";
}

std::string SetsTable(const PreparationFacts& facts) {
  std::vector<std::vector<Cell>> rows;
  for (const SetFacts& set : facts.sets) {
    rows.push_back({{set.name},
                    {Thousands(set.pairs)},
                    {Thousands(set.source.words)},
                    {Thousands(set.target.words)},
                    {Thousands(set.source.pieces)},
                    {Thousands(set.target.pieces)},
                    {PercentText(set.target.unknown_rate)},
                    {Thousands(set.cut_pairs)}});
  }
  return TableHtml({"Set", ">Pairs", ">Source words", ">Target words", ">Source pieces",
                    ">Target pieces", ">Unknown in target", ">Cut pairs"},
                   rows, {.caption = "Prepared sets"});
}

std::string FilesTable(const std::vector<FileFacts>& files, const std::string& caption,
                       bool is_checkpoint) {
  std::vector<std::vector<Cell>> rows;
  for (const FileFacts& file : files) {
    rows.push_back({{file.name},
                    {BytesText(static_cast<double>(file.bytes))},
                    {is_checkpoint ? HoldsText(file.name) : ""}});
  }
  if (is_checkpoint) return TableHtml({"File", ">Size", "Holds"}, rows, {.caption = caption});
  return TableHtml({"File", ">Size"}, rows, {.caption = caption});
}

std::string ParametersTable(const CheckpointFacts& checkpoint) {
  std::vector<std::vector<Cell>> rows;
  const auto all = static_cast<double>(checkpoint.parameter_count());
  for (const auto& [group, count] : checkpoint.parameters) {
    rows.push_back({{group},
                    {Thousands(static_cast<double>(count))},
                    {PercentText(static_cast<double>(count) / all)}});
  }
  return TableHtml({"Part of the model", ">Parameters", ">Share"}, rows,
                   {.caption = "Parameters by the names of their tensors"});
}

std::string NormsTable(const NormFacts& norms) {
  std::vector<std::vector<Cell>> rows;
  for (const NormFacts::Group& group : norms.groups) {
    rows.push_back({{group.name},
                    {ShortNumber(group.gradient)},
                    {ShortNumber(group.weight)},
                    {absl::StrFormat("%.1e", group.update_share)}});
  }
  return TableHtml({"Part of the model", ">Gradient norm", ">Weight norm", ">Moved by an update"},
                   rows,
                   {.caption = "Norms at update " + Thousands(static_cast<double>(norms.step)) +
                               "; the last column is a share of the weight norm"});
}

std::string LimitsFold() {
  std::vector<std::vector<Cell>> rows;
  for (const Limit& limit : limits::kAll) {
    rows.push_back({{std::string(limit.meaning)}, {absl::StrFormat("%g", limit.value)}});
  }
  return "<details><summary>The thresholds of the verdicts</summary>\n" +
         TableHtml({"Threshold", ">Value"}, rows) + "</details>\n";
}

std::string EventsFold(const RunFacts& run) {
  constexpr size_t kMost = 50;
  std::vector<std::vector<Cell>> rows;
  const size_t begin = run.events.size() - std::min(run.events.size(), kMost);
  for (size_t i = begin; i < run.events.size(); ++i) {
    const EventFacts& event = run.events[i];
    rows.push_back({{Thousands(static_cast<double>(event.step))}, {event.kind}, {event.text}});
  }
  return absl::StrFormat("<details><summary>The last %d events</summary>\n", rows.size()) +
         TableHtml({">Update", "Kind", "Event"}, rows) + "</details>\n";
}

bool IsPrivate(std::string_view name) {
  return name == "host" || name.find("dir") != name.npos || name.find("path") != name.npos;
}

// True for a setting that holds a path.
bool IsPrivateSetting(std::string_view key, std::string_view value) {
  return IsPrivate(key) || value.find('/') != value.npos;
}

Settings PublicSettings(const Settings& settings) {
  Settings kept;
  for (const auto& setting : settings) {
    if (!IsPrivateSetting(setting.first, setting.second)) kept.push_back(setting);
  }
  return kept;
}

// The last `count` parts of a path.
std::string LastParts(std::string_view path, size_t count) {
  while (path.ends_with('/')) path.remove_suffix(1);
  size_t at = path.size();
  for (size_t i = 0; i < count && at != path.npos; ++i) {
    at = at == 0 ? path.npos : path.rfind('/', at - 1);
  }
  return std::string(at == path.npos ? path : path.substr(at + 1));
}

// Which names stand for several runs.
std::vector<bool> Repeated(const std::vector<std::string>& names) {
  std::map<std::string_view, size_t> counts;
  for (const std::string& name : names) ++counts[name];
  std::vector<bool> repeated;
  for (const std::string& name : names) repeated.push_back(counts[name] > 1);
  return repeated;
}

// The time of each rank in each phase.
std::string PhasesTable(const RunNumbers& numbers) {
  constexpr size_t kMost = 16;
  if (numbers.phases.empty()) {
    return "<p class=\"quiet\">The times of the other ranks are not recorded.</p>\n";
  }
  std::vector<std::string> heads = {">Rank"};
  for (const std::string_view name : recorded::kPhaseNames) {
    heads.push_back(absl::StrCat(">", ToAbsl(name)));
  }
  std::vector<std::vector<Cell>> rows;
  for (size_t rank = 0; rank < std::min(kMost, numbers.phases.size()); ++rank) {
    std::vector<Cell> row = {{absl::StrCat(rank)}};
    for (const double seconds : numbers.phases[rank]) row.push_back({DurationText(seconds)});
    rows.push_back(std::move(row));
  }
  std::string caption = "Time of each rank in each phase; exchange is waiting for gradients";
  if (numbers.phases.size() > kMost) {
    caption += absl::StrFormat(" (the first %d of %d ranks)", kMost, numbers.phases.size());
  }
  return TableHtml(heads, rows, {.caption = caption});
}

// "+0.43 ± 0.26" of the last evaluations; "" if they are not of the same rows.
std::string DifferenceText(const RunReport& report, const RunReport& first) {
  const ShownMetric& metric = first.metric;
  if (!report.run.last_rows || !first.run.last_rows) return "";
  const std::optional<Interval> difference =
      DifferenceOf(*report.run.last_rows, *first.run.last_rows, metric.key);
  if (!difference) return "";
  // One place more than of the score: differences are small.
  return absl::StrFormat("%+.*f ± %.*f", metric.decimals + 1, difference->value * metric.scale,
                         metric.decimals + 1, HalfWidth(*difference) * metric.scale);
}

}  // namespace

std::string TimePart(const RunReport& report) {
  const double wall = report.numbers.wall_seconds;
  if (!(wall > 0.0)) return kNone;
  std::string bar;
  std::string keys;
  std::vector<std::string> words;
  double x = 0.0;
  for (const TimeShare& part : TimeShares(report)) {
    const double share = part.seconds / wall;
    absl::StrAppendFormat(&bar,
                          "<rect class=\"fill %s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" "
                          "height=\"36\"/>",
                          part.fill, 1000.0 * x, 1000.0 * share);
    const std::string text = absl::StrFormat("%s %s", part.name, PercentText(share));
    absl::StrAppendFormat(&keys,
                          "<span><svg viewBox=\"0 0 12 12\" width=\"12\" height=\"12\" "
                          "aria-hidden=\"true\"><rect class=\"fill %s\" width=\"12\" "
                          "height=\"12\"/></svg>%s</span>",
                          part.fill, Html(text + " (" + DurationText(part.seconds) + ")"));
    words.push_back(text);
    x += share;
  }
  return absl::StrCat("<div class=\"bar\" role=\"img\" aria-label=\"",
                      Html(absl::StrJoin(words, ", ")),
                      "\"><svg viewBox=\"0 0 1000 36\" preserveAspectRatio=\"none\" "
                      "aria-hidden=\"true\">",
                      bar, "</svg></div><p class=\"swatches\">", keys,
                      "</p>\n<p class=\"quiet\">Of ", DurationText(wall),
                      " in all, as rank 0 recorded them, without start-up and time between "
                      "restarts.</p>\n",
                      PhasesTable(report.numbers));
}

std::string MachinesPart(const RunReport& report) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : report.run.environment) {
    if (report.is_public && IsPrivate(name)) continue;
    rows.push_back({{name}, {value}});
  }
  if (rows.empty()) return kNone;
  return TableHtml({"Of the last start", "Value"}, rows) +
         (report.run.host.empty()
              ? "<p class=\"quiet\">Use of processors, memory, disks and networks over time is not "
                "recorded in this run.</p>\n"
              : "<p class=\"quiet\">The curves are of rank 0's host; GPUs and other hosts are not "
                "recorded.</p>\n");
}

std::string SamplesPart(const RunReport& report) {
  const SampleFacts& samples = report.run.samples;
  if (samples.rows.empty()) return kNone;
  std::vector<std::vector<Cell>> rows;
  for (const std::vector<std::string>& texts : samples.rows) {
    std::vector<Cell> row;
    for (const std::string& text : texts) row.push_back({text});
    rows.push_back(std::move(row));
  }
  return TableHtml(samples.columns, rows,
                   {.name = "samples",
                    .caption = "Samples of the dev set at update " +
                               Thousands(static_cast<double>(samples.step))});
}

std::string DataPart(const RunReport& report) {
  const RunFacts& run = report.run;
  std::string html = run.preparation ? SetsTable(*run.preparation) : "";
  html += "<div class=\"columns\">";
  if (!run.data_files.empty()) html += FilesTable(run.data_files, "Prepared files in data/", false);
  if (!run.checkpoint.name.empty()) {
    html += FilesTable(run.checkpoint.files,
                       "The newest checkpoint, " + run.checkpoint.name + ": " +
                           BytesText(static_cast<double>(run.checkpoint.bytes())),
                       true);
  }
  if (!run.checkpoint.parameters.empty()) html += ParametersTable(run.checkpoint);
  if (!run.norms.empty()) html += NormsTable(run.norms.back());
  html += "</div>\n";
  return html == "<div class=\"columns\"></div>\n" ? kNone : html;
}

bool IsPublic(std::span<const RunReport> reports) {
  return std::any_of(reports.begin(), reports.end(),
                     [](const RunReport& report) { return report.is_public; });
}

std::vector<std::string> RunNames(std::span<const RunReport> reports) {
  constexpr size_t kMostParts = 8;
  std::vector<std::string> names;
  for (const RunReport& report : reports) names.push_back(report.run.name);
  // Folders may be named after people, so a public page shows none.
  const size_t most = IsPublic(reports) ? 1 : kMostParts;
  for (size_t parts = 2; parts <= most; ++parts) {
    const std::vector<bool> repeated = Repeated(names);
    for (size_t i = 0; i < names.size(); ++i) {
      if (repeated[i]) names[i] = LastParts(reports[i].run.path, parts);
    }
  }
  const std::vector<bool> repeated = Repeated(names);
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < names.size(); ++i) {
    if (repeated[i]) absl::StrAppend(&names[i], " (", ++numbers[names[i]], ")");
  }
  return names;
}

std::string AgainPart(const RunReport& report) {
  std::string html;
  if (!report.is_public) {
    for (const StartFacts& start : report.run.starts) {
      absl::StrAppend(&html, "<pre>", Html(start.time + "  " + start.command), "</pre>\n");
    }
  }
  const Settings changed = ChangedSettings(report);
  const std::string caption = report.defaults.empty()
                                  ? "All settings (the program's defaults are not known here)"
                                  : "Settings that differ from their defaults";
  html +=
      SettingsTable(report.is_public ? PublicSettings(changed) : changed, caption, report.defaults);
  if (!report.is_public) html += EventsFold(report.run);
  return html + LimitsFold();
}

std::string DifferingSettings(std::span<const RunReport> reports) {
  std::vector<std::string> heads = {"Setting"};
  for (std::string& name : RunNames(reports)) heads.push_back(std::move(name));
  std::vector<std::string> keys;
  for (const RunReport& report : reports) {
    for (const auto& setting : report.run.settings) {
      if (std::find(keys.begin(), keys.end(), setting.first) == keys.end()) {
        keys.push_back(setting.first);
      }
    }
  }
  const bool is_public = IsPublic(reports);
  std::vector<std::vector<Cell>> rows;
  for (const std::string& key : keys) {
    std::vector<Cell> row = {{key}};
    bool differs = false;
    bool is_private = false;
    for (const RunReport& report : reports) {
      row.push_back({report.run.Setting(key)});
      differs = differs || row.back().text != row[1].text;
      is_private = is_private || IsPrivateSetting(key, row.back().text);
    }
    // Every run has a folder of its own.
    if (!differs || key == "run.run_dir" || (is_public && is_private)) continue;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "<p class=\"none\">No setting differs.</p>\n";
  return TableHtml(heads, rows, {.caption = "Only settings that differ"});
}

std::string ComparePart(std::span<const RunReport> reports) {
  const ShownMetric& metric = reports.front().metric;
  const std::vector<std::string> names = RunNames(reports);
  std::vector<std::vector<Cell>> rows;
  bool has_differences = false;
  for (size_t i = 0; i < reports.size(); ++i) {
    const RunReport& report = reports[i];
    const std::string difference = i == 0 ? "" : DifferenceText(report, reports.front());
    has_differences = has_differences || !difference.empty();
    const std::vector<CurvePoint> curve = EvaluationCurve(report.run, metric.key);
    const auto best_of = [&](auto better) {
      double best = curve.empty() ? kNoNumber : curve.front().y;
      for (const CurvePoint& point : curve) best = better(point.y, best) ? point.y : best;
      return best;
    };
    const double best =
        metric.is_larger_better ? best_of(std::greater<>()) : best_of(std::less<>());
    const auto shown = [&](double value) {
      return std::isfinite(value) ? FixedNumber(value * metric.scale, metric.decimals) : "none";
    };
    rows.push_back({{names[i]},
                    {StateOf(report).word},
                    {shown(curve.empty() ? kNoNumber : curve.back().y)},
                    {report.numbers.score ? shown(HalfWidth(*report.numbers.score)) : ""},
                    {difference},
                    {shown(best)},
                    {Thousands(static_cast<double>(report.run.updates()))},
                    {DurationText(report.run.seconds())},
                    {ShortNumber(report.numbers.step_ms)},
                    {ShortNumber(report.numbers.tokens_per_second)},
                    {absl::StrCat(report.numbers.ranks)},
                    {PercentText(report.numbers.comm_share)}});
  }
  const char* const note =
      has_differences
          ? "± is half of the interval in which 95 % of the draws of the dev set's rows lie. A "
            "difference to the first run is real, for this dev set, if it is larger than its ±: "
            "both runs are measured on the same draws. It says nothing of other seeds."
          : "Values per row of the same dev set are not recorded, so there are no intervals of "
            "differences: how much runs differ by chance is not known. Take small differences for "
            "noise.";
  return TableHtml({"Run", "State", ">" + metric.name + ", last", ">±", ">Difference to the first",
                    ">best", ">Updates", ">Time", ">ms an update", ">Tokens a second", ">Ranks",
                    ">Waits for gradients"},
                   rows, {.caption = "Results"}) +
         absl::StrCat("<p class=\"quiet\">", Html(note), "</p>\n") + DifferingSettings(reports);
}

}  // namespace dtrain::internal
