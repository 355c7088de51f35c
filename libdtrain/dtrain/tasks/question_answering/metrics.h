// metrics.h - exact match and F1 of answers to questions, as SQuAD's own programs count them.
// SPDX-License-Identifier: Apache-2.0
//
//   std::vector<SquadGrade> grades;
//   for (...) grades.push_back({.golds = {"Paris", "the city"}, .prediction = "Paris"});
//   const SquadScores scores = ScoreSquad(grades);             // SQuAD 1.1
//   const Squad2Scores scores = ScoreSquad2(grades);           // SQuAD 2.0
//
// The rules are those of evaluate-v1.1.py and evaluate-v2.0.py (Rajpurkar et al.), values those of
// transformers' squad_metrics.py (tests/golden/make_squad_goldens.py). Figures are in percent.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// A text as answers are compared: in lower case, without ASCII punctuation, then without the words
// a, an and the, with one space between words. UTF-8.
std::string NormalizeSquadAnswer(std::string_view text);

// Of the normalised texts: equal or not; and the harmonic mean of precision and recall of their
// words, each counted as often as it occurs. F1 is 1 or 0 where one of them has no words: whether
// neither has.
bool SquadExactMatch(std::string_view gold, std::string_view prediction);
double SquadF1(std::string_view gold, std::string_view prediction);

// One question with what was answered.
struct SquadGrade {
  std::vector<std::string> golds;         // any of them is right; none: there is no answer (2.0)
  std::optional<std::string> prediction;  // unset: missing, which scores 0. "" says: no answer
  double null_odds = 0.0;                 // 2.0: the higher, the surer that there is no answer
};

// NaN where there are no questions.
struct SquadScores {
  double exact = 0.0;
  double f1 = 0.0;
  int64_t total = 0;    // questions
  int64_t missing = 0;  // of them, without a prediction
};

// As evaluate-v1.1.py: the best over the golds; F1 is 0 where no word is common, even where both
// texts are empty. A question without golds scores 0.
SquadScores ScoreSquad(std::span<const SquadGrade> grades);

struct Squad2Scores {
  SquadScores all;
  SquadScores has_answer;  // questions with golds
  SquadScores no_answer;   // and without
  // What `all` would be with the best of all thresholds, and the smallest one that gives it; 0
  // where predicting no answer at all is best.
  double best_exact = 0.0;
  double best_exact_threshold = 0.0;
  double best_f1 = 0.0;
  double best_f1_threshold = 0.0;
};

// As evaluate-v2.0.py: golds that normalise to nothing do not count, and a question without any
// other is answered by "". Where null_odds > threshold the prediction is taken for "". The best
// thresholds look at predictions as given: they should be the best texts that are not empty.
Squad2Scores ScoreSquad2(std::span<const SquadGrade> grades, double threshold = 1.0);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_
