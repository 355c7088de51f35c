// classification_metrics.h - accuracy, F1, Matthews, correlations, ROC AUC and Jigsaw's bias score.
// SPDX-License-Identifier: Apache-2.0
//
//   ConfusionMatrix matrix(2);
//   for (...) matrix.Add(label, prediction);
//   comm.AllReduce(matrix.counts(), ReduceOp::kSum);   // ranks count their own rows
//   LogInfo(matrix.Format({"no", "yes"}));
//   matrix.Accuracy(), matrix.F1(1), matrix.Matthews();
//
// Values are those of scikit-learn and SciPy (tests/golden/make_classification_goldens.py); a
// metric that is not defined is NaN, or what its comment says. Counts and ranks are whole numbers,
// so nothing depends on the order of the rows, or on how ranks share them. What needs all rows at
// once (correlations, AUC) gathers them first.
#ifndef DTRAIN_METRICS_CLASSIFICATION_METRICS_H_
#define DTRAIN_METRICS_CLASSIFICATION_METRICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes);

  // Both in [0, num_classes).
  void Add(int64_t label, int64_t prediction);
  // [num_classes (label), num_classes (prediction)]: for sums over ranks.
  std::span<int64_t> counts() { return counts_; }

  int64_t num_classes() const { return num_classes_; }
  int64_t count(int64_t label, int64_t prediction) const;
  int64_t total() const;
  int64_t labels(int64_t c) const;       // rows that are of class c
  int64_t predictions(int64_t c) const;  // rows that were said to be

  // NaN without rows.
  double Accuracy() const;
  // 0 where nothing was predicted, or nothing is, of the class.
  double Precision(int64_t c) const;
  double Recall(int64_t c) const;
  double F1(int64_t c) const;
  // The mean of F1 over the classes that occur, as label or as prediction. NaN without rows.
  double MacroF1() const;
  // Gorodkin's R_K, which for two classes is Matthews' coefficient. 0 when all labels, or all
  // predictions, are of one class.
  double Matthews() const;

  // A table for people: rows are labels, columns predictions. Classes are numbers where `names`, in
  // UTF-8, are too few; more than `max_classes` are cut to those with the most rows. Long names are
  // cut, and where two are alike then, each has its number in front.
  std::string Format(const std::vector<std::string>& names, int64_t max_classes = 12) const;

 private:
  int64_t num_classes_;
  std::vector<int64_t> counts_;
};

// NaN for less than two rows, where one side is constant, and where a value is not finite.
double PearsonCorrelation(std::span<const float> a, std::span<const float> b);
// Of ranks; equal values share the mean of theirs.
double SpearmanCorrelation(std::span<const float> a, std::span<const float> b);

// Area under the ROC curve: the chance that a positive row scores above a negative one, equal
// scores counting half. NaN where all rows are of one class, or a score is NaN.
double RocAuc(std::span<const float> scores, std::span<const uint8_t> is_positive);

// One subgroup's three AUCs. Borkan et al. (WWW 2019), section 3.1.
struct SubgroupAucs {
  int64_t rows = 0;
  int64_t positives = 0;
  double subgroup = 0.0;  // rows of the group
  double bpsn = 0.0;      // background positive, subgroup negative
  double bnsp = 0.0;      // background negative, subgroup positive
};

struct JigsawScore {
  double overall_auc = 0.0;
  std::vector<SubgroupAucs> groups;  // in the order of their bits
  // Power means over the groups, p = -5.
  double subgroup = 0.0;
  double bpsn = 0.0;
  double bnsp = 0.0;
  // overall_auc / 4 and a quarter of each power mean; NaN where any AUC is not defined.
  double final_score = 0.0;

  // A table for people.
  std::string Format(const std::vector<std::string>& group_names) const;
};

// The metric of "Jigsaw Unintended Bias in Toxicity Classification". groups: bit g of a row says
// whether it is of group g, for num_groups <= 32 groups.
JigsawScore ComputeJigsawScore(std::span<const float> scores, std::span<const uint8_t> is_positive,
                               std::span<const uint32_t> groups, int64_t num_groups);

}  // namespace dtrain

#endif  // DTRAIN_METRICS_CLASSIFICATION_METRICS_H_
