// answers.cc - pairs of likely starts and ends, sorted, as texts and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/answers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"

namespace dtrain {
namespace {

// run_squad.py's score of no answer where no window has one.
constexpr double kNoNullScore = 1e6;

// Row positions first and last of a window.
struct Span {
  int64_t window = 0;
  int32_t first = 0;
  int32_t last = 0;
  double start_logit = 0.0;
  double end_logit = 0.0;

  double score() const { return start_logit + end_logit; }
  bool is_null() const { return first == 0; }  // [CLS]
  // Best first; no answer behind texts of its score.
  friend bool operator<(const Span& a, const Span& b) {
    const double score_a = a.score();
    const double score_b = b.score();
    if (score_a != score_b) return score_a > score_b;
    return std::tuple(a.is_null(), a.window, a.first, a.last) <
           std::tuple(b.is_null(), b.window, b.first, b.last);
  }
};

// Positions of the `count` largest finite logits, the first of equals.
std::vector<int32_t> BestPositions(std::span<const float> logits, int count) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) positions.push_back(static_cast<int32_t>(i));
  }
  const auto kept = std::min(positions.size(), static_cast<size_t>(count));
  const auto end = positions.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(positions.begin(), end, positions.end(), [&](int32_t a, int32_t b) {
    return std::tuple(-logits[static_cast<size_t>(a)], a) <
           std::tuple(-logits[static_cast<size_t>(b)], b);
  });
  positions.resize(kept);
  return positions;
}

void AddSpans(const SquadWindows& windows, int64_t w, const SquadLogits& logits,
              const SquadAnswerOptions& options, std::vector<Span>& spans) {
  const SquadWindow& window = windows.window(w);
  const int32_t context_end = window.context_begin + window.num_tokens;
  const std::vector<int32_t> lasts = BestPositions(logits.end, options.n_best);
  for (const int32_t first : BestPositions(logits.start, options.n_best)) {
    if (first < window.context_begin || first >= context_end) continue;
    if (!windows.IsMaxContext(w, window.first_token + first - window.context_begin)) continue;
    for (const int32_t last : lasts) {
      if (last < first || last >= context_end) continue;
      if (last - first >= options.max_answer_length) continue;
      spans.push_back({.window = w,
                       .first = first,
                       .last = last,
                       .start_logit = logits.start[static_cast<size_t>(first)],
                       .end_logit = logits.end[static_cast<size_t>(last)]});
    }
  }
}

// Of the window that is least sure of it.
Span NullSpan(int64_t first_window, std::span<const SquadLogits> logits, double& score) {
  Span null;
  score = kNoNullScore;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Span span{.window = first_window + static_cast<int64_t>(i),
                    .start_logit = logits[i].start[0],
                    .end_logit = logits[i].end[0]};
    if (!std::isfinite(span.score()) || span.score() >= score) continue;
    null = span;
    score = span.score();
  }
  return null;
}

std::string TextOf(const SquadSet& set, const SquadWindows& windows, const Span& span) {
  if (span.is_null()) return "";
  const SquadWindow& window = windows.window(span.window);
  const std::span<const TokenSpan> tokens = windows.ContextTokens(window.question);
  const auto token_at = [&](int32_t position) {
    const int32_t token = window.first_token + position - window.context_begin;
    return tokens[static_cast<size_t>(token)];
  };
  const auto begin = static_cast<size_t>(token_at(span.first).begin);
  const auto end = static_cast<size_t>(token_at(span.last).end);
  const int64_t context = set.questions[static_cast<size_t>(window.question)].context;
  return set.contexts[static_cast<size_t>(context)].substr(begin, end - begin);
}

void SetProbabilities(std::vector<SquadCandidate>& candidates) {
  const auto score = [](const SquadCandidate& c) { return c.start_logit + c.end_logit; };
  double best = score(candidates[0]);
  for (const SquadCandidate& candidate : candidates) best = std::max(best, score(candidate));
  double sum = 0.0;
  for (SquadCandidate& candidate : candidates) {
    candidate.probability = std::exp(score(candidate) - best);
    sum += candidate.probability;
  }
  for (SquadCandidate& candidate : candidates) candidate.probability /= sum;
}

// The best of `spans`, which are sorted, each text once.
std::vector<SquadCandidate> CandidatesOf(const SquadSet& set, const SquadWindows& windows,
                                         std::span<const Span> spans, int n_best) {
  std::vector<SquadCandidate> candidates;
  std::unordered_set<std::string> seen;
  for (const Span& span : spans) {
    if (candidates.size() == static_cast<size_t>(n_best)) break;
    std::string text = TextOf(set, windows, span);
    if (!seen.insert(text).second) continue;
    candidates.push_back(
        {.text = std::move(text), .start_logit = span.start_logit, .end_logit = span.end_logit});
  }
  return candidates;
}

std::string JsonText(const nlohmann::json& value) { return internal::JsonText(value); }

std::string JsonOf(const std::vector<SquadCandidate>& candidates) {
  std::string text = "[";
  for (const SquadCandidate& candidate : candidates) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "",
                    "\n        {\n            \"text\": ", JsonText(candidate.text),
                    ",\n            \"probability\": ", JsonText(candidate.probability),
                    ",\n            \"start_logit\": ", JsonText(candidate.start_logit),
                    ",\n            \"end_logit\": ", JsonText(candidate.end_logit), "\n        }");
  }
  return text + "\n    ]";
}

// {"id": value(i), ...}, written question by question: lists of candidates are long.
Status WriteMembers(const std::string& path, const SquadSet& set,
                    const std::function<std::string(size_t)>& value) {
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  DT_RETURN_IF_ERROR(file.Write("{"));
  for (size_t i = 0; i < set.questions.size(); ++i) {
    DT_RETURN_IF_ERROR(file.Write(
        absl::StrCat(i > 0 ? "," : "", "\n    ", JsonText(set.questions[i].id), ": ", value(i))));
  }
  DT_RETURN_IF_ERROR(file.Write("\n}\n"));
  return file.Commit();
}

}  // namespace

SquadPrediction AnswerOf(const SquadSet& set, const SquadWindows& windows, int64_t question,
                         std::span<const SquadLogits> logits, const SquadAnswerOptions& options) {
  DT_CHECK_GT(options.n_best, 0);
  DT_CHECK_GT(options.max_answer_length, 0);
  const SquadWindowRange range = windows.WindowsOf(question);
  DT_CHECK_EQ(static_cast<int64_t>(logits.size()), range.end - range.begin);
  std::vector<Span> spans;
  for (size_t i = 0; i < logits.size(); ++i) {
    const int64_t w = range.begin + static_cast<int64_t>(i);
    const auto length = static_cast<size_t>(windows.lengths()[static_cast<size_t>(w)]);
    DT_CHECK_EQ(logits[i].start.size(), length);
    DT_CHECK_EQ(logits[i].end.size(), length);
    AddSpans(windows, w, logits[i], options, spans);
  }
  double null_score = 0.0;
  const Span null = NullSpan(range.begin, logits, null_score);
  if (options.allow_none) spans.push_back(null);
  std::sort(spans.begin(), spans.end());

  SquadPrediction prediction;
  std::vector<SquadCandidate>& candidates = prediction.candidates;
  candidates = CandidatesOf(set, windows, spans, options.n_best);
  const auto is_none = [](const SquadCandidate& candidate) { return candidate.text.empty(); };
  if (candidates.empty()) candidates.emplace_back();
  if (options.allow_none && std::none_of(candidates.begin(), candidates.end(), is_none)) {
    candidates.push_back(
        {.text = {}, .start_logit = null.start_logit, .end_logit = null.end_logit});
  }
  SetProbabilities(candidates);
  const auto best = std::find_if_not(candidates.begin(), candidates.end(), is_none);
  const bool has_text = best != candidates.end();
  if (options.allow_none) {
    prediction.null_odds = null_score - (has_text ? best->start_logit + best->end_logit : 0.0);
  }
  const bool is_answered = !options.allow_none || prediction.null_odds <= options.null_threshold;
  if (has_text && is_answered) prediction.text = best->text;
  return prediction;
}

Status WriteSquadPredictions(const std::string& folder, const SquadSet& set,
                             std::span<const SquadPrediction> predictions, bool with_null_odds) {
  DT_CHECK_EQ(predictions.size(), set.questions.size());
  DT_RETURN_IF_ERROR(MakeDirectories(folder));
  DT_RETURN_IF_ERROR(WriteMembers(folder + "/" + kSquadPredictionFiles[0], set,
                                  [&](size_t i) { return JsonText(predictions[i].text); }));
  DT_RETURN_IF_ERROR(WriteMembers(folder + "/" + kSquadPredictionFiles[1], set,
                                  [&](size_t i) { return JsonOf(predictions[i].candidates); }));
  const std::string null_odds = folder + "/" + kSquadPredictionFiles[2];
  if (!with_null_odds) {
    // One of other predictions would be taken for these ones'.
    std::error_code error;
    std::filesystem::remove(null_odds, error);
    return error ? FileError(null_odds, "delete", error.value()) : OkStatus();
  }
  return WriteMembers(null_odds, set, [&](size_t i) { return JsonText(predictions[i].null_odds); });
}

}  // namespace dtrain
