// classification_metrics_test.cc - the metrics of classifiers are scikit-learn's and SciPy's.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/classification_metrics.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const nlohmann::json& Golden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(testing::GoldenPath("classification_metrics.json"));
    REQUIRE(file.good());
    return nlohmann::json::parse(file);
  }();
  return golden;
}

// null stands for NaN.
void CheckNumber(double value, const nlohmann::json& expected) {
  if (expected.is_null()) {
    CHECK(std::isnan(value));
  } else {
    CHECK(value == Approx(expected.get<double>()).epsilon(1e-12).margin(1e-14));
  }
}

ConfusionMatrix MatrixOf(int64_t classes, const std::vector<int64_t>& labels,
                         const std::vector<int64_t>& predictions) {
  ConfusionMatrix matrix(classes);
  for (size_t i = 0; i < labels.size(); ++i) matrix.Add(labels[i], predictions[i]);
  return matrix;
}

std::vector<float> Scaled(const nlohmann::json& ticks) {
  std::vector<float> scores;
  for (const float tick : ticks) scores.push_back(tick / 64.0f);
  return scores;
}

TEST_CASE("accuracy, precision, recall, F1 and Matthews are scikit-learn's") {
  for (const nlohmann::json& golden : Golden()["classes"]) {
    const ConfusionMatrix matrix =
        MatrixOf(golden["classes"], golden["labels"], golden["predictions"]);
    CheckNumber(matrix.Accuracy(), golden["accuracy"]);
    CheckNumber(matrix.Matthews(), golden["matthews"]);
    CheckNumber(matrix.MacroF1(), golden["macro_f1"]);
    for (int64_t c = 0; c < matrix.num_classes(); ++c) {
      CheckNumber(matrix.F1(c), golden["f1"][static_cast<size_t>(c)]);
      CheckNumber(matrix.Precision(c), golden["precision"][static_cast<size_t>(c)]);
      CheckNumber(matrix.Recall(c), golden["recall"][static_cast<size_t>(c)]);
    }
  }
}

TEST_CASE("ROC AUC with ties and correlations are scikit-learn's and SciPy's") {
  for (const nlohmann::json& golden : Golden()["scores"]) {
    const std::vector<float> scores = Scaled(golden["ticks"]);
    const std::vector<float> others = Scaled(golden["others"]);
    CheckNumber(RocAuc(scores, golden["labels"].get<std::vector<uint8_t>>()), golden["auc"]);
    CheckNumber(PearsonCorrelation(scores, others), golden["pearson"]);
    CheckNumber(SpearmanCorrelation(scores, others), golden["spearman"]);
  }
}

TEST_CASE("Jigsaw's score is that of the competition's kernel") {
  for (const nlohmann::json& golden : Golden()["scores"]) {
    const nlohmann::json& expected = golden["jigsaw"];
    const JigsawScore score =
        ComputeJigsawScore(Scaled(golden["ticks"]), golden["labels"].get<std::vector<uint8_t>>(),
                           golden["groups"].get<std::vector<uint32_t>>(), 9);
    CheckNumber(score.overall_auc, expected["overall"]);
    CheckNumber(score.final_score, expected["final"]);
    REQUIRE(score.groups.size() == 9);
    for (size_t g = 0; g < 9; ++g) {
      CheckNumber(score.groups[g].subgroup, expected["subgroup"][g]);
      CheckNumber(score.groups[g].bpsn, expected["bpsn"][g]);
      CheckNumber(score.groups[g].bnsp, expected["bnsp"][g]);
    }
  }
}

TEST_CASE("a confusion matrix counts rows and sums over ranks") {
  ConfusionMatrix matrix = MatrixOf(3, {0, 0, 1, 2}, {0, 1, 1, 1});
  CHECK(matrix.count(0, 1) == 1);
  CHECK(matrix.labels(0) == 2);
  CHECK(matrix.predictions(1) == 3);
  for (int64_t& count : matrix.counts()) count *= 2;
  CHECK(matrix.total() == 8);
  CHECK(matrix.Accuracy() == 0.5);
  const std::string table = matrix.Format({"no", "yes"});
  CHECK_THAT(table, Catch::Contains("no") && Catch::Contains("yes") && Catch::Contains("2"));
  CHECK_THAT(table, Catch::Contains("rows precision  recall      f1\n") &&
                        Catch::Contains(" 0.3333  1.0000  0.5000\n"));
  CHECK_THAT(ConfusionMatrix(20).Format({}), Catch::Contains("and 8 classes with fewer rows"));
  CHECK_THROWS_AS(matrix.Add(3, 0), CheckError);
  CHECK_THROWS_AS(matrix.Add(0, -1), CheckError);
}

TEST_CASE("names are cut and aligned by characters, and numbered where they are cut alike") {
  const auto check_widths = [](const std::string& table, size_t lines) {
    CHECK(IsValidUtf8(table));
    std::vector<size_t> widths = {0};
    for (const char c : table) {
      if (c == '\n') {
        widths.push_back(0);
      } else if ((static_cast<unsigned char>(c) & 0xC0u) != 0x80u) {
        ++widths.back();
      }
    }
    widths.pop_back();  // behind the last line
    CHECK(widths == std::vector<size_t>(lines, widths[0]));
  };
  const std::string foreign =
      ConfusionMatrix(3).Format({"ärgerlich, überaus", "größer", "日本語の長い名前のクラス名です"});
  check_widths(foreign, 4);
  CHECK_THAT(foreign, Catch::Contains(" ärgerlich,     größer 日本語の長い名前のク ") &&
                          Catch::Contains("\närgerlich, übera ") &&
                          Catch::Contains("\n 日本語の長い名前のクラス名です ") &&
                          !Catch::Contains("0:"));

  const std::string alike = ConfusionMatrix(3).Format({"very negative", "very negative 2", "good"});
  check_widths(alike, 4);
  CHECK_THAT(alike, Catch::Contains(" 0:very neg 1:very neg     2:good ") &&
                        Catch::Contains("\n 0:very negative ") &&
                        Catch::Contains("\n1:very negative "));

  const JigsawScore score = ComputeJigsawScore(std::vector<float>{1, 2}, std::vector<uint8_t>{0, 1},
                                               std::vector<uint32_t>{1, 2}, 2);
  const std::string groups = score.Format({"Männer", "women"});
  check_widths(groups.substr(0, groups.find("power mean")), 3);
}

TEST_CASE("metrics that are not defined are NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> rising = {1, 2, 3};
  const std::vector<float> constant = {2, 2, 2};
  const std::vector<float> broken = {1, nan, 3};
  CHECK(std::isnan(ConfusionMatrix(2).Accuracy()));
  CHECK(std::isnan(ConfusionMatrix(2).MacroF1()));
  CHECK(ConfusionMatrix(2).Matthews() == 0.0);
  CHECK(std::isnan(PearsonCorrelation(rising, constant)));
  CHECK(std::isnan(SpearmanCorrelation(constant, rising)));
  CHECK(std::isnan(PearsonCorrelation(rising, broken)));
  CHECK(std::isnan(PearsonCorrelation({}, {})));
  CHECK(std::isnan(RocAuc(rising, std::vector<uint8_t>{1, 1, 1})));
  CHECK(std::isnan(RocAuc(rising, std::vector<uint8_t>{0, 0, 0})));
  CHECK(std::isnan(RocAuc(broken, std::vector<uint8_t>{0, 1, 0})));
  CHECK(std::isnan(RocAuc({}, {})));
  CHECK(RocAuc(constant, std::vector<uint8_t>{0, 1, 0}) == 0.5);
  CHECK(RocAuc(rising, std::vector<uint8_t>{0, 0, 1}) == 1.0);
  CHECK(PearsonCorrelation(rising, rising) == 1.0);
  const JigsawScore score =
      ComputeJigsawScore(broken, std::vector<uint8_t>{0, 1, 0}, std::vector<uint32_t>{0, 1, 1}, 1);
  CHECK(std::isnan(score.final_score));
  CHECK(score.groups[0].rows == 2);
  CHECK(score.groups[0].positives == 1);
  CHECK_THAT(score.Format({"male"}), Catch::Contains("male") && Catch::Contains("final score nan"));
}

TEST_CASE("metrics of unequal lengths are broken contracts") {
  const std::vector<float> two = {1, 2};
  const std::vector<uint8_t> one = {1};
  CHECK_THROWS_AS(RocAuc(two, one), CheckError);
  CHECK_THROWS_AS(PearsonCorrelation(two, std::vector<float>{1}), CheckError);
  CHECK_THROWS_AS(ConfusionMatrix(0), CheckError);
}

}  // namespace
}  // namespace dtrain
