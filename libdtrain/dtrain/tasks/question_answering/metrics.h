// metrics.h - exact match and F1 of answers, computed like SQuAD's own programs.
// SPDX-License-Identifier: Apache-2.0
//
//   std::vector<SquadGrade> grades;
//   for (...) grades.push_back({.golds = {"Paris", "the city"}, .prediction = "Paris"});
//   const SquadScores scores = ScoreSquad(grades);    // SQuAD 1.1
//   const Squad2Scores scores = ScoreSquad2(grades);  // SQuAD 2.0
//
// The rules are those of evaluate-v1.1.py and evaluate-v2.0.py (Rajpurkar et al.). The values equal
// those of transformers' squad_metrics.py (tests/golden/make_squad_goldens.py). Scores are in
// percent.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// Normalises a UTF-8 text for comparison: lower case, without ASCII punctuation, without the words
// a, an and the, with one space between words.
std::string NormalizeSquadAnswer(std::string_view text);

// Compare normalised texts. SquadExactMatch is true if they are equal. SquadF1 is the harmonic mean
// of precision and recall of their words, counted with repetition. If either text has no words,
// SquadF1 is 1 if both have none, otherwise 0.
bool SquadExactMatch(std::string_view gold, std::string_view prediction);
double SquadF1(std::string_view gold, std::string_view prediction);

// One question with its correct answers and the prediction.
struct SquadGrade {
  std::vector<std::string> golds;         // any of these is right; empty if the question has no
                                          // answer (2.0)
  std::optional<std::string> prediction;  // unset if missing, which scores 0; "" predicts "no
                                          // answer"
  double null_odds = 0.0;                 // 2.0 only: a higher value means "no answer" is more
                                          // likely
};

// The scores are NaN if there are no questions.
struct SquadScores {
  double exact = 0.0;
  double f1 = 0.0;
  int64_t total = 0;    // number of questions
  int64_t missing = 0;  // number of questions without a prediction
};

// Scores like evaluate-v1.1.py: the best over the golds. F1 is 0 if no word is common, even if both
// texts are empty. A question without golds scores 0.
SquadScores ScoreSquad(std::span<const SquadGrade> grades);

struct Squad2Scores {
  SquadScores all;
  SquadScores has_answer;  // questions that have golds
  SquadScores no_answer;   // questions without golds
  // The scores `all` would have with the best threshold, and the smallest such threshold; 0 if
  // always predicting "no answer" is best.
  double best_exact = 0.0;
  double best_exact_threshold = 0.0;
  double best_f1 = 0.0;
  double best_f1_threshold = 0.0;
};

// Scores like evaluate-v2.0.py. Golds that are empty after normalisation are ignored; a question
// without other golds has the right answer "". If null_odds > threshold, the prediction counts as
// "". The best thresholds use the predictions as given, which should be the best non-empty texts.
Squad2Scores ScoreSquad2(std::span<const SquadGrade> grades, double threshold = 1.0);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_METRICS_H_
