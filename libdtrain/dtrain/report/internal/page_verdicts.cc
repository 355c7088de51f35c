// page_verdicts.cc - the head of a page, its verdicts and the answers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/report/html.h"
#include "dtrain/report/internal/page_parts.h"
#include "dtrain/report/number_text.h"

namespace dtrain::internal {
namespace {

// A sign beside a verdict, and its word for those who do not see it.
struct LevelWords {
  const char* sign;
  const char* word;
};

LevelWords WordsOf(VerdictLevel level) {
  switch (level) {
    case VerdictLevel::kBad:
      return {"\xE2\x9C\x96", "Problem"};  // a cross
    case VerdictLevel::kWarn:
      return {"\xE2\x96\xB2", "Change this"};  // a triangle
    case VerdictLevel::kNote:
      return {"\xE2\x97\x86", "Worth knowing"};  // a diamond
    case VerdictLevel::kUnknown:
      return {"?", "Cannot tell"};
    case VerdictLevel::kGood:
      break;
  }
  return {"\xE2\x9C\x93", "Fine"};  // a tick
}

std::string IconHtml(VerdictLevel level) {
  return absl::StrFormat(
      "<span class=\"icon %s\" aria-hidden=\"true\">%s</span><span class=\"hide\">%s: </span>",
      ToAbsl(Name(level)), WordsOf(level).sign, WordsOf(level).word);
}

std::string EvidenceLink(std::string_view curve, const std::string& of) {
  if (curve.empty()) return "";
  return absl::StrFormat(" <a href=\"#%s\" aria-label=\"evidence for: %s\">evidence</a>",
                         AnchorOf(curve), Html(of));
}

std::string CardHtml(const Verdict& verdict) {
  std::string html = absl::StrFormat(
      "<article class=\"card %s\" data-verdict=\"%s\" data-level=\"%s\"><div class=\"head\">%s"
      "<h3>%s</h3><b>%s</b></div><p>%s</p>",
      ToAbsl(Name(verdict.level)), Html(verdict.id), ToAbsl(Name(verdict.level)),
      IconHtml(verdict.level), Html(verdict.title), Html(verdict.number), Html(verdict.text));
  if (!verdict.change.empty()) {
    absl::StrAppend(&html, "<p class=\"change\"><b>Change</b> ", Html(verdict.change), "</p>");
  }
  absl::StrAppend(&html, "<p class=\"quiet\"><span class=\"sure\">", Html(Name(verdict.sure)),
                  "</span> ", Html(verdict.evidence), EvidenceLink(verdict.curve, verdict.title),
                  "</p></article>\n");
  return html;
}

std::string LineHtml(const Verdict& verdict) {
  return absl::StrFormat(
      "<li class=\"%s\" data-verdict=\"%s\" data-level=\"%s\">%s<b>%s.</b> %s %s%s</li>\n",
      ToAbsl(Name(verdict.level)), Html(verdict.id), ToAbsl(Name(verdict.level)),
      IconHtml(verdict.level), Html(verdict.title), Html(verdict.text), Html(verdict.change),
      verdict.sure == Sureness::kMeasured || verdict.level == VerdictLevel::kUnknown
          ? ""
          : absl::StrCat(" <span class=\"sure\">", Html(Name(verdict.sure)), "</span>"));
}

// "Nothing to change.", "One thing to change.", "3 things to change."
std::string ChangesTitle(const std::vector<Verdict>& verdicts) {
  const auto count = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return verdict.level == VerdictLevel::kBad || verdict.level == VerdictLevel::kWarn;
  });
  if (count == 0) return "Nothing to change.";
  return count == 1 ? "One thing to change." : absl::StrFormat("%d things to change.", count);
}

std::string FigureHtml(const std::string& name, const std::string& value) {
  if (value.empty()) return "";
  return absl::StrCat("<div><dt>", Html(name), "</dt><dd>", Html(value), "</dd></div>");
}

// "nmt_train, 2 ranks, cpu, begun 2026-01-31 12:00"
std::string AboutRun(const RunReport& report) {
  const RunFacts& run = report.run;
  std::string text = run.Environment("program");
  absl::StrAppend(&text, text.empty() ? "" : ", ", CountOfThings(report.numbers.ranks, "rank"));
  for (const char* const part : {"device", "processor"}) {
    if (!run.Environment(part).empty()) absl::StrAppend(&text, ", ", run.Environment(part));
  }
  if (const std::string precision = run.Setting("trainer.precision"); !precision.empty()) {
    absl::StrAppend(&text, ", ", precision);
  }
  if (!run.starts.empty() && run.starts.front().time.size() >= 16) {
    const std::string time = run.starts.front().time.substr(0, 16);
    absl::StrAppend(&text, ", begun ", absl::StrReplaceAll(time, {{"T", " "}}), " UTC");
  }
  return text;
}

}  // namespace

std::string AnchorOf(std::string_view curve) {
  constexpr std::array kSections = {"time", "data", "samples", "machines"};
  if (std::find(kSections.begin(), kSections.end(), curve) != kSections.end()) {
    return std::string(curve);
  }
  return "c-" + std::string(curve);
}

StateWords StateOf(const RunReport& report) {
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.id != "finished") continue;
    const char* const look = verdict.level == VerdictLevel::kBad    ? "bad"
                             : verdict.level == VerdictLevel::kGood ? "good"
                                                                    : "note";
    return {verdict.level == VerdictLevel::kUnknown ? "State not known" : verdict.title, look};
  }
  return {"State not known", "note"};
}

std::string HeaderPart(const RunReport& report) {
  const RunFacts& run = report.run;
  const RunNumbers& numbers = report.numbers;
  const StateWords state = StateOf(report);
  const std::string languages = run.Setting("data.source_language").empty()
                                    ? ""
                                    : run.Setting("data.source_language") + " to " +
                                          run.Setting("data.target_language") + ": ";
  std::string html = absl::StrFormat(
      "<header class=\"top\"><h1>%s%s</h1>\n<p><span class=\"chip %s\">%s</span> "
      "<span class=\"quiet\">%s</span></p>\n<dl class=\"figures\">",
      Html(languages), Html(run.name), state.look, Html(state.word), Html(AboutRun(report)));
  html += FigureHtml("dev set, last evaluation", ScoreText(report));
  html += FigureHtml("test set", TestText(report));
  html += FigureHtml("training time", DurationText(run.seconds()));
  html += FigureHtml("updates", Thousands(static_cast<double>(run.updates())));
  if (std::isfinite(numbers.step_ms)) {
    html += FigureHtml("an update, median", ShortNumber(numbers.step_ms) + " ms");
  }
  if (std::isfinite(numbers.tokens_per_second)) {
    html += FigureHtml("target tokens a second", ShortNumber(numbers.tokens_per_second));
  }
  const auto parameters = static_cast<double>(run.checkpoint.parameter_count());
  if (parameters > 0.0) html += FigureHtml("parameters", ShortNumber(parameters));
  return html + "</dl></header>\n";
}

std::string VerdictsPart(const RunReport& report) {
  std::string cards;
  std::string fine;
  std::string unknown;
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.level == VerdictLevel::kGood) {
      fine += LineHtml(verdict);
    } else if (verdict.level == VerdictLevel::kUnknown) {
      unknown += LineHtml(verdict);
    } else {
      cards += CardHtml(verdict);
    }
  }
  std::string html;
  if (!cards.empty()) absl::StrAppend(&html, "<div class=\"cards\">", cards, "</div>\n");
  if (!fine.empty()) absl::StrAppend(&html, "<h3>Fine</h3>\n<ul class=\"fine\">", fine, "</ul>\n");
  if (!unknown.empty()) {
    absl::StrAppend(&html, "<h3>Not known</h3>\n<ul class=\"fine\">", unknown, "</ul>\n");
  }
  if (!report.run.remarks.empty()) {
    html += "<h3>What is missing</h3>\n<ul class=\"fine\">";
    for (const std::string& remark : report.run.remarks) {
      absl::StrAppend(&html, "<li>", IconHtml(VerdictLevel::kUnknown), Html(remark), "</li>\n");
    }
    html += "</ul>\n";
  }
  return Section("verdicts", ChangesTitle(report.verdicts), html);
}

std::string AnswersPart(const RunReport& report) {
  std::string html = "<table class=\"answers\"><tbody>";
  for (size_t i = 0; i < report.answers.size(); ++i) {
    const Answer& answer = report.answers[i];
    absl::StrAppendFormat(
        &html, "<tr data-question=\"%d\"><th scope=\"row\">%s</th><td>%s%s</td></tr>\n", i + 1,
        Html(answer.question), Html(answer.text), EvidenceLink(answer.curve, answer.question));
  }
  return html + "</tbody></table>\n";
}

}  // namespace dtrain::internal
