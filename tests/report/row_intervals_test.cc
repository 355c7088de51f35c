// row_intervals_test.cc - intervals of metrics that are known from statistics, and paired ones.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/row_intervals.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

// A classifier that is right on each of the rows below `right`, of 1,000.
RowValues Classified(int right) {
  RowValues values;
  std::vector<float> sums;
  for (int i = 0; i < 1000; ++i) {
    values.rows.push_back(i);
    sums.push_back(i < right ? 1.0F : 0.0F);
  }
  values.AddRatio("accuracy", sums, std::vector<float>(1000, 1.0F));
  return values;
}

TEST_CASE("the interval of a share is that of its binomial distribution") {
  const std::optional<Interval> interval = IntervalOf(Classified(800), "accuracy");
  REQUIRE(interval);
  CHECK(interval->value == 0.8);
  const double error = std::sqrt(0.8 * 0.2 / 1000.0);
  CHECK(interval->error == Approx(error).epsilon(0.1));
  CHECK(HalfWidth(*interval) == Approx(1.96 * error).epsilon(0.15));
  CHECK(interval->low < 0.8);
  CHECK(interval->high > 0.8);
}

TEST_CASE("a paired difference is sharper than the two intervals") {
  const RowValues better = Classified(810);
  const RowValues worse = Classified(800);
  const std::optional<Interval> difference = DifferenceOf(better, worse, "accuracy");
  REQUIRE(difference);
  CHECK(difference->value == Approx(0.01));
  // Only 10 rows differ; two separate samples would have an error of 0.018.
  CHECK(difference->error == Approx(std::sqrt(0.01 * 0.99 / 1000.0)).epsilon(0.1));
  CHECK(difference->low > 0.0);
  CHECK(DifferenceOf(worse, worse, "accuracy")->error == 0.0);
}

TEST_CASE("a score of counts is that of all sentences, to the last digit") {
  const std::vector<std::string> hypotheses = {"the cat sat on a mat", "a dog ran off",
                                               "birds sing in the morning"};
  const std::vector<std::string> references = {"the cat sat on the mat", "the dog ran off",
                                               "birds sing every morning"};
  RowValues values;
  RowValues::Column bleu{.name = std::string(kBleuColumn), .width = 10};
  RowValues::Column chrf{.name = std::string(kChrfColumn), .width = 18};
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    values.rows.push_back(static_cast<int32_t>(i));
    const std::vector<std::string> hypothesis = {hypotheses[i]};
    const std::vector<std::vector<std::string>> reference = {{references[i]}};
    for (const int64_t count : CountBleu(hypothesis, reference)->counts) {
      bleu.values.push_back(static_cast<float>(count));
    }
    for (const int64_t count : CountChrf(hypothesis, reference)->counts) {
      chrf.values.push_back(static_cast<float>(count));
    }
  }
  values.columns = {bleu, chrf};
  CHECK(IntervalOf(values, "bleu")->value == CorpusBleu(hypotheses, references)->score);
  CHECK(IntervalOf(values, "chrf")->value == *CorpusChrf(hypotheses, references));
}

TEST_CASE("metrics without values, few rows and other rows have no interval") {
  CHECK_FALSE(IntervalOf(Classified(800), "auc"));
  CHECK_FALSE(IntervalOf(RowValues(), "accuracy"));
  RowValues one{.rows = {0}};
  one.AddRatio("accuracy", {1.0F}, {1.0F});
  CHECK_FALSE(IntervalOf(one, "accuracy"));
  RowValues other = Classified(800);
  other.rows.back() = 5000;
  CHECK_FALSE(DifferenceOf(Classified(800), other, "accuracy"));
  // Rows of another set have other labels.
  RowValues ours = Classified(800);
  RowValues theirs = Classified(800);
  ours.columns.push_back({.name = std::string(kLabelColumn), .values = std::vector<float>(1000)});
  theirs.columns.push_back(
      {.name = std::string(kLabelColumn), .values = std::vector<float>(1000, 1.0F)});
  CHECK_FALSE(DifferenceOf(ours, theirs, "accuracy"));
}

TEST_CASE("broken values give no interval and no crash") {
  RowValues values = Classified(800);
  for (float& value : values.columns[0].values) value = std::nanf("");
  CHECK_FALSE(IntervalOf(values, "accuracy"));
  RowValues counts{.rows = {0, 1}};
  counts.columns.push_back(
      {.name = std::string(kBleuColumn), .width = 10, .values = std::vector<float>(20, -1e30F)});
  IntervalOf(counts, "bleu");
  counts.columns[0].width = 3;
  CHECK_FALSE(IntervalOf(counts, "bleu"));
}

}  // namespace
}  // namespace dtrain
