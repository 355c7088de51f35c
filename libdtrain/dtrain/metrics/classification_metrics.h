// classification_metrics.h - accuracy, F1, Matthews, correlations, ROC AUC and Jigsaw's bias.
// SPDX-License-Identifier: Apache-2.0
//
//   ConfusionMatrix matrix(2);
//   matrix.Add(/*label=*/1, /*prediction=*/0);
//   comm.AllReduce(matrix.counts(), ReduceOp::kSum);  // ranks count their own rows
//   LogInfo(matrix.Format({"no", "yes"}));
//   const double f1 = matrix.F1(1);
//
// Values equal those of scikit-learn and SciPy (tests/golden/make_classification_goldens.py).
// Unless noted otherwise, an undefined metric is NaN. Counts and rank numbers are integers, so
// results do not depend on the order of rows or on how ranks share them. Metrics that need all rows
// at once (correlations, AUC) require that the rows are gathered first.
#ifndef DTRAIN_METRICS_CLASSIFICATION_METRICS_H_
#define DTRAIN_METRICS_CLASSIFICATION_METRICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

// Counts pairs of label and prediction, and gives metrics of them.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t num_classes);

  // Adds one row. Both arguments must be in [0, num_classes).
  void Add(int64_t label, int64_t prediction);
  // [num_classes (label), num_classes (prediction)], for adding over ranks.
  std::span<int64_t> counts() { return counts_; }

  int64_t num_classes() const { return num_classes_; }
  // Number of rows with this label and this prediction.
  int64_t count(int64_t label, int64_t prediction) const;
  int64_t total() const;
  int64_t labels(int64_t c) const;       // number of rows whose label is c
  int64_t predictions(int64_t c) const;  // number of rows whose prediction is c

  // NaN if there are no rows.
  double Accuracy() const;
  // 0 if no row is predicted as the class (Precision), or no row has it (Recall). F1 is 0 in both
  // cases.
  double Precision(int64_t c) const;
  double Recall(int64_t c) const;
  double F1(int64_t c) const;
  // The mean of F1 over the classes that occur as a label or a prediction. NaN if there are no
  // rows.
  double MacroF1() const;
  // Gorodkin's R_K, which for two classes is Matthews' coefficient. 0 if all labels, or all
  // predictions, are the same class.
  double Matthews() const;

  // A readable table: rows are labels, columns are predictions. Classes without a name in `names`
  // (UTF-8) are shown as numbers. If there are more than `max_classes` classes, those with the most
  // rows are shown. Long names are shortened, and get their number as a prefix if two would look
  // the same.
  std::string Format(const std::vector<std::string>& names, int64_t max_classes = 12) const;

 private:
  int64_t num_classes_;
  std::vector<int64_t> counts_;
};

// NaN for fewer than two rows, if one side is constant, or if a value is not finite.
double PearsonCorrelation(std::span<const float> a, std::span<const float> b);
// The correlation of ranks. Equal values share the mean of their ranks.
double SpearmanCorrelation(std::span<const float> a, std::span<const float> b);

// Area under the ROC curve: the probability that a positive row scores higher than a negative one,
// where equal scores count half. NaN if all rows are of one class or a score is NaN.
double RocAuc(std::span<const float> scores, std::span<const uint8_t> is_positive);

// The three AUCs of one subgroup (Borkan et al., WWW 2019, section 3.1).
struct SubgroupAucs {
  int64_t rows = 0;
  int64_t positives = 0;
  double subgroup = 0.0;  // AUC of the group's rows
  double bpsn = 0.0;      // AUC of background positives and subgroup negatives
  double bnsp = 0.0;      // AUC of background negatives and subgroup positives
};

// The metric of ComputeJigsawScore() and its parts.
struct JigsawScore {
  double overall_auc = 0.0;
  std::vector<SubgroupAucs> groups;  // in the order of their bits
  // Power means over the groups, with p = -5.
  double subgroup = 0.0;
  double bpsn = 0.0;
  double bnsp = 0.0;
  // The mean of overall_auc and the three power means. NaN if any AUC is undefined.
  double final_score = 0.0;

  // A readable table.
  std::string Format(const std::vector<std::string>& group_names) const;
};

// The metric of "Jigsaw Unintended Bias in Toxicity Classification". groups: bit g of a row is set
// if the row belongs to group g; num_groups <= 32.
JigsawScore ComputeJigsawScore(std::span<const float> scores, std::span<const uint8_t> is_positive,
                               std::span<const uint32_t> groups, int64_t num_groups);

}  // namespace dtrain

#endif  // DTRAIN_METRICS_CLASSIFICATION_METRICS_H_
