// report_output.cc - a report as JSON and as text for the terminal.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/report/number_text.h"
#include "dtrain/report/run_report.h"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no word for a number that is not there.
Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json FactsJson(const RunReport& report) {
  const RunNumbers& numbers = report.numbers;
  Json facts = {{"updates", report.run.updates()},
                {"ranks", numbers.ranks},
                {"seconds", NumberJson(report.run.seconds())},
                {"step_ms", NumberJson(numbers.step_ms)},
                {"target_tokens_per_s", NumberJson(numbers.tokens_per_second)},
                {"data_share", NumberJson(numbers.data_share)},
                {"comm_share", NumberJson(numbers.comm_share)},
                {"bytes_each_way", NumberJson(numbers.bytes_each_way)},
                {"checkpoints", NumberJson(numbers.checkpoints)},
                {"checkpoint_seconds", NumberJson(numbers.checkpoint_seconds)},
                {"evaluations", report.run.evaluations.size()},
                {"evaluation_seconds", NumberJson(numbers.evaluation_seconds)},
                {"warmup_updates", NumberJson(numbers.warmup_updates)},
                {"resumes", numbers.resumes},
                {"clock_seconds", NumberJson(numbers.clock_seconds)},
                {"lost_seconds", NumberJson(numbers.lost_seconds)},
                {"others_share", NumberJson(numbers.others_share)},
                {"common_wait_share", NumberJson(numbers.common_wait_share)},
                {"slow_share", NumberJson(numbers.slow_share)},
                {"slow_rank", numbers.slow_rank},
                {"update_share", NumberJson(numbers.update_share)},
                {"end_reason", numbers.end_reason}};
  return facts;
}

Json VerdictsJson(const std::vector<Verdict>& verdicts) {
  Json list = Json::array();
  for (const Verdict& verdict : verdicts) {
    list.push_back({{"id", verdict.id},
                    {"level", std::string(Name(verdict.level))},
                    {"title", verdict.title},
                    {"text", verdict.text},
                    {"number", verdict.number},
                    {"sure", std::string(Name(verdict.sure))},
                    {"evidence", verdict.evidence},
                    {"change", verdict.change},
                    {"curve", verdict.curve}});
  }
  return list;
}

Json ResultsJson(const RunReport& report) {
  Json dev = Json::object();
  if (!report.run.evaluations.empty()) {
    const EvaluationFacts& last = report.run.evaluations.back();
    dev["step"] = last.step;
    for (const auto& [name, value] : last.metrics) dev[name] = NumberJson(value);
  }
  Json test = Json::object();
  if (report.run.test) {
    for (const auto& [name, value] : report.run.test->metrics) test[name] = NumberJson(value);
  }
  Json results = {{"metric", report.metric.key}, {"dev", dev}, {"test", test}};
  if (const std::optional<Interval>& score = report.numbers.score) {
    results["interval"] = {{"error", NumberJson(score->error)},
                           {"low", NumberJson(score->low)},
                           {"high", NumberJson(score->high)},
                           {"rows", report.run.last_rows->rows.size()}};
    results["difference_error"] = NumberJson(report.numbers.score_difference_error);
  }
  return results;
}

// The sign before a verdict in the terminal.
const char* Sign(VerdictLevel level) {
  switch (level) {
    case VerdictLevel::kBad:
      return "x";
    case VerdictLevel::kWarn:
      return "!";
    case VerdictLevel::kNote:
      return "*";
    case VerdictLevel::kUnknown:
      return "?";
    case VerdictLevel::kGood:
      break;
  }
  return "+";
}

// Breaks a text at words into lines of at most 88 characters below an indent.
void AppendWrapped(std::string_view text, std::string_view indent, std::string& out) {
  constexpr size_t kWidth = 88;
  std::string line;
  for (const auto& word : absl::StrSplit(absl::string_view(text.data(), text.size()), ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, absl::string_view(indent.data(), indent.size()), line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  absl::StrAppend(&out, absl::string_view(indent.data(), indent.size()), line, "\n");
}

}  // namespace

std::string ReportJson(const RunReport& report) {
  Json json = {{"schema", "dtrain.report"},  {"version", kReportVersion},
               {"run", report.run.name},     {"state", report.run.status.state},
               {"facts", FactsJson(report)}, {"verdicts", VerdictsJson(report.verdicts)}};
  Json answers = Json::array();
  for (const Answer& answer : report.answers) {
    answers.push_back({{"question", answer.question}, {"answer", answer.text}});
  }
  json["answers"] = std::move(answers);
  json["results"] = ResultsJson(report);
  json["checkpoint_bytes"] = report.run.checkpoint.bytes();
  json["parameters"] = report.run.checkpoint.parameter_count();
  json["remarks"] = report.run.remarks;
  return internal::JsonText(json, 1) + "\n";
}

std::string ReportText(const RunReport& report) {
  std::string text =
      absl::StrCat(report.run.name, ": ",
                   report.run.status.state.empty() ? "state not known" : report.run.status.state);
  const std::string score = ScoreText(report);
  if (!score.empty()) absl::StrAppend(&text, ", ", score);
  absl::StrAppend(&text, ", ", CountOfThings(static_cast<double>(report.run.updates()), "update"),
                  " in ", DurationText(report.run.seconds()), "\n");
  for (const Verdict& verdict : report.verdicts) {
    absl::StrAppendFormat(
        &text, "\n%s %s%s%s\n", Sign(verdict.level), verdict.title,
        verdict.number.empty() ? "" : "  " + verdict.number,
        verdict.level == VerdictLevel::kGood || verdict.level == VerdictLevel::kUnknown
            ? ""
            : "  (" + std::string(Name(verdict.sure)) + ")");
    AppendWrapped(verdict.text, "    ", text);
    if (verdict.level == VerdictLevel::kGood) continue;
    if (!verdict.evidence.empty()) AppendWrapped(verdict.evidence, "    ", text);
    if (!verdict.change.empty()) AppendWrapped("Change: " + verdict.change, "    ", text);
  }
  text += "\n";
  for (const Answer& answer : report.answers) {
    absl::StrAppend(&text, answer.question, "\n");
    AppendWrapped(answer.text, "    ", text);
  }
  if (!report.run.remarks.empty()) text += "\nWhat is missing\n";
  for (const std::string& remark : report.run.remarks) AppendWrapped(remark, "    ", text);
  return PrintableLines(text);
}

}  // namespace dtrain
