// metrics.cc - normalised answers, and sums over questions.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/metrics.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "dtrain/metrics/internal/python_text.h"

namespace dtrain {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// The characters of Python's string.punctuation.
bool IsAsciiPunctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

// Returns the size in bytes of the first character of `text`, which must not be empty. Sets
// `is_word` if Python's regular expressions match it with \w. The underscore is not considered,
// because punctuation has been removed.
size_t TakeCharacter(std::string_view text, bool& is_word) {
  utf8proc_int32_t code_point = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  is_word = false;
  if (size <= 0) return 1;
  const utf8proc_category_t category = utf8proc_category(code_point);
  is_word = (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
            (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
  return static_cast<size_t>(size);
}

// Replaces each word a, an and the by a space.
std::string WithoutArticles(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    bool is_word = false;
    size_t end = at + TakeCharacter(text.substr(at), is_word);
    if (is_word) {
      while (end < text.size()) {
        const size_t size = TakeCharacter(text.substr(end), is_word);
        if (!is_word) break;
        end += size;
      }
    }
    const std::string_view word = text.substr(at, end - at);
    out += word == "a" || word == "an" || word == "the" ? " " : word;
    at = end;
  }
  return out;
}

// The words in the order of the text, as views into `normalized`.
std::vector<std::string_view> WordsOf(const std::string& normalized) {
  std::vector<std::string_view> words;
  internal::SplitWords(normalized, words);
  return words;
}

// F1 of the words of two texts; 0 if they have no word in common.
double F1OfCommonWords(std::vector<std::string_view> gold,
                       std::vector<std::string_view> prediction) {
  std::sort(gold.begin(), gold.end());
  std::sort(prediction.begin(), prediction.end());
  std::vector<std::string_view> common;
  std::set_intersection(gold.begin(), gold.end(), prediction.begin(), prediction.end(),
                        std::back_inserter(common));
  if (common.empty()) return 0.0;
  const auto same = static_cast<double>(common.size());
  const double precision = same / static_cast<double>(prediction.size());
  const double recall = same / static_cast<double>(gold.size());
  return 2.0 * precision * recall / (precision + recall);
}

struct Score {
  double exact = 0.0;
  double f1 = 0.0;
};

class Totals {
 public:
  void Add(const Score& score, bool is_missing) {
    sum_.exact += score.exact;
    sum_.f1 += score.f1;
    ++total_;
    missing_ += is_missing;
  }
  SquadScores Scores() const {
    if (total_ == 0) return {.exact = kUndefined, .f1 = kUndefined};
    const auto n = static_cast<double>(total_);
    return {.exact = 100.0 * sum_.exact / n,
            .f1 = 100.0 * sum_.f1 / n,
            .total = total_,
            .missing = missing_};
  }

 private:
  Score sum_;
  int64_t total_ = 0;
  int64_t missing_ = 0;
};

// The score of one question by the rules of 2.0, without a threshold.
Score Score2(const SquadGrade& grade) {
  if (!grade.prediction) return {};
  Score best;
  const auto compare = [&](const std::string& gold) {
    best.exact = std::max(best.exact, SquadExactMatch(gold, *grade.prediction) ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, SquadF1(gold, *grade.prediction));
  };
  bool has_gold = false;
  for (const std::string& gold : grade.golds) {
    if (NormalizeSquadAnswer(gold).empty()) continue;
    compare(gold);
    has_gold = true;
  }
  if (!has_gold) compare("");
  return best;
}

struct BestThreshold {
  double score = kUndefined;  // percent
  double threshold = 0.0;
};

// Starts with "no answer" for all questions. Then, in the order of null_odds, each question's
// answer is replaced by its predicted text.
BestThreshold FindBestThreshold(std::span<const SquadGrade> grades, std::span<const Score> scores,
                                double Score::*member) {
  std::vector<size_t> order(grades.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return grades[a].null_odds < grades[b].null_odds; });
  double score = 0.0;
  for (const SquadGrade& grade : grades) score += grade.golds.empty() ? 1.0 : 0.0;
  BestThreshold best{.score = score};
  for (const size_t i : order) {
    if (!grades[i].prediction) continue;
    if (!grades[i].golds.empty()) {
      score += scores[i].*member;
    } else if (!grades[i].prediction->empty()) {
      score -= 1.0;
    }
    if (score > best.score) best = {.score = score, .threshold = grades[i].null_odds};
  }
  best.score =
      grades.empty() ? kUndefined : 100.0 * best.score / static_cast<double>(grades.size());
  return best;
}

}  // namespace

std::string NormalizeSquadAnswer(std::string_view text) {
  std::string plain = internal::LowerCase(text);
  std::erase_if(plain, IsAsciiPunctuation);
  plain = WithoutArticles(plain);
  std::string normalized;
  for (const std::string_view word : WordsOf(plain)) {
    if (!normalized.empty()) normalized += ' ';
    normalized += word;
  }
  return normalized;
}

bool SquadExactMatch(std::string_view gold, std::string_view prediction) {
  return NormalizeSquadAnswer(gold) == NormalizeSquadAnswer(prediction);
}

double SquadF1(std::string_view gold, std::string_view prediction) {
  const std::string normal_gold = NormalizeSquadAnswer(gold);
  const std::string normal_prediction = NormalizeSquadAnswer(prediction);
  if (normal_gold.empty() || normal_prediction.empty()) {
    return normal_gold == normal_prediction ? 1.0 : 0.0;
  }
  return F1OfCommonWords(WordsOf(normal_gold), WordsOf(normal_prediction));
}

SquadScores ScoreSquad(std::span<const SquadGrade> grades) {
  Totals totals;
  for (const SquadGrade& grade : grades) {
    Score best;
    if (grade.prediction) {
      const std::string prediction = NormalizeSquadAnswer(*grade.prediction);
      for (const std::string& text : grade.golds) {
        const std::string gold = NormalizeSquadAnswer(text);
        best.exact = std::max(best.exact, gold == prediction ? 1.0 : 0.0);
        best.f1 = std::max(best.f1, F1OfCommonWords(WordsOf(gold), WordsOf(prediction)));
      }
    }
    totals.Add(best, !grade.prediction);
  }
  return totals.Scores();
}

Squad2Scores ScoreSquad2(std::span<const SquadGrade> grades, double threshold) {
  std::vector<Score> scores;
  Totals all;
  Totals has_answer;
  Totals no_answer;
  for (const SquadGrade& grade : grades) {
    scores.push_back(Score2(grade));
    Score score = scores.back();
    if (grade.prediction && grade.null_odds > threshold) {
      score.exact = score.f1 = grade.golds.empty() ? 1.0 : 0.0;
    }
    all.Add(score, !grade.prediction);
    (grade.golds.empty() ? no_answer : has_answer).Add(score, !grade.prediction);
  }
  const BestThreshold exact = FindBestThreshold(grades, scores, &Score::exact);
  const BestThreshold f1 = FindBestThreshold(grades, scores, &Score::f1);
  return {.all = all.Scores(),
          .has_answer = has_answer.Scores(),
          .no_answer = no_answer.Scores(),
          .best_exact = exact.score,
          .best_exact_threshold = exact.threshold,
          .best_f1 = f1.score,
          .best_f1_threshold = f1.threshold};
}

}  // namespace dtrain
