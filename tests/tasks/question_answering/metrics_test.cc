// metrics_test.cc - answers are compared and counted as SQuAD's programs do.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/metrics.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const nlohmann::json& Golden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(testing::GoldenPath("squad.json"));
    REQUIRE(file.good());
    return nlohmann::json::parse(file)["scores"];
  }();
  return golden;
}

void CheckNumber(double value, const nlohmann::json& expected) {
  CHECK(value == Approx(expected.get<double>()).epsilon(1e-12).margin(1e-12));
}

SquadGrade GradeOf(const nlohmann::json& question) {
  return {.golds = question[0], .prediction = question[1], .null_odds = question[2]};
}

std::vector<SquadGrade> GoldenGrades() {
  std::vector<SquadGrade> grades;
  for (const nlohmann::json& question : Golden()["questions"]) grades.push_back(GradeOf(question));
  return grades;
}

TEST_CASE("texts are normalised as transformers' are") {
  REQUIRE(Golden()["normalized"].size() > 20);
  for (const nlohmann::json& pair : Golden()["normalized"]) {
    INFO(pair[0]);
    CHECK(NormalizeSquadAnswer(pair[0].get<std::string>()) == pair[1].get<std::string>());
  }
}

TEST_CASE("bytes that are not UTF-8 stay, as parts of no word") {
  CHECK(NormalizeSquadAnswer("a\xFF"
                             "The\xFF THE x") == "\xFF \xFF x");
}

TEST_CASE("exact match and F1 of pairs are transformers'") {
  for (const nlohmann::json& pair : Golden()["pairs"]) {
    INFO(pair);
    const std::string gold = pair[0];
    const std::string prediction = pair[1];
    CHECK(SquadExactMatch(gold, prediction) == (pair[2] == 1));
    CheckNumber(SquadF1(gold, prediction), pair[3]);
  }
}

TEST_CASE("totals of 1.1 are transformers' where no text is empty") {
  std::vector<SquadGrade> grades;
  for (const size_t i : Golden()["version_1"]["questions"]) {
    grades.push_back(GradeOf(Golden()["questions"][i]));
  }
  const SquadScores scores = ScoreSquad(grades);
  CHECK(scores.total == static_cast<int64_t>(grades.size()));
  CHECK(scores.missing == 0);
  CheckNumber(scores.exact, Golden()["version_1"]["result"]["exact"]);
  CheckNumber(scores.f1, Golden()["version_1"]["result"]["f1"]);
}

TEST_CASE("by the rules of 1.1 what is missing scores 0, and so does the F1 of nothing") {
  const std::vector<SquadGrade> grades = {{.golds = {"x y"}, .prediction = "x"},
                                          {.golds = {"x"}, .prediction = std::nullopt},
                                          {.golds = {"the"}, .prediction = "a"},
                                          {.golds = {}, .prediction = ""}};
  const SquadScores scores = ScoreSquad(grades);
  CHECK(scores.exact == 25.0);
  CHECK(scores.f1 == Approx(100.0 * (2.0 / 3.0) / 4.0).epsilon(1e-14));
  CHECK(scores.total == 4);
  CHECK(scores.missing == 1);
  CHECK(std::isnan(ScoreSquad({}).f1));
}

TEST_CASE("totals of 2.0, their parts and best thresholds are transformers'") {
  const std::vector<SquadGrade> grades = GoldenGrades();
  for (const nlohmann::json& golden : Golden()["version_2"]) {
    const double threshold = golden["threshold"];
    INFO("threshold " << threshold);
    const nlohmann::json& expected = golden["result"];
    const Squad2Scores scores = ScoreSquad2(grades, threshold);
    CheckNumber(scores.all.exact, expected["exact"]);
    CheckNumber(scores.all.f1, expected["f1"]);
    CHECK(scores.all.total == expected["total"]);
    CheckNumber(scores.has_answer.exact, expected["HasAns_exact"]);
    CheckNumber(scores.has_answer.f1, expected["HasAns_f1"]);
    CHECK(scores.has_answer.total == expected["HasAns_total"]);
    CheckNumber(scores.no_answer.exact, expected["NoAns_exact"]);
    CheckNumber(scores.no_answer.f1, expected["NoAns_f1"]);
    CHECK(scores.no_answer.total == expected["NoAns_total"]);
    CheckNumber(scores.best_exact, expected["best_exact"]);
    CheckNumber(scores.best_exact_threshold, expected["best_exact_thresh"]);
    CheckNumber(scores.best_f1, expected["best_f1"]);
    CheckNumber(scores.best_f1_threshold, expected["best_f1_thresh"]);
  }
}

TEST_CASE("by the rules of 2.0 a missing prediction scores 0, whatever the threshold") {
  const std::vector<SquadGrade> grades = {
      {.golds = {"x"}, .prediction = "x", .null_odds = 0.5},
      {.golds = {}, .prediction = std::nullopt, .null_odds = 2.0}};
  const Squad2Scores scores = ScoreSquad2(grades);
  CHECK(scores.all.exact == 50.0);
  CHECK(scores.all.missing == 1);
  CHECK(scores.no_answer.missing == 1);
  CHECK(scores.no_answer.f1 == 0.0);
  CHECK(ScoreSquad2(grades, 0.25).all.exact == 0.0);
  CHECK(std::isnan(ScoreSquad2({}).all.exact));
  CHECK(std::isnan(ScoreSquad2({}).best_f1));
  CHECK(std::isnan(ScoreSquad2({grades.data(), 1}).no_answer.f1));
}

TEST_CASE("the best threshold is the lowest of those that give the best score") {
  const std::vector<SquadGrade> grades = {{.golds = {"x"}, .prediction = "x", .null_odds = -1.0},
                                          {.golds = {}, .prediction = "y", .null_odds = 1.0},
                                          {.golds = {"z"}, .prediction = "z", .null_odds = 2.0}};
  const Squad2Scores scores = ScoreSquad2(grades, 5.0);
  CHECK(scores.best_exact == Approx(200.0 / 3.0).epsilon(1e-14));
  CHECK(scores.best_exact_threshold == -1.0);
  CHECK(scores.all.exact == Approx(200.0 / 3.0).epsilon(1e-14));
  // Where no text is right, "no answer" for all is best.
  CHECK(ScoreSquad2({grades.data() + 1, 1}).best_f1 == 100.0);
  CHECK(ScoreSquad2({grades.data() + 1, 1}).best_f1_threshold == 0.0);
}

}  // namespace
}  // namespace dtrain
