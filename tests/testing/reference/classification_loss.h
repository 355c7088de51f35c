// classification_loss.h - the losses of a row of outputs, by the formulas and in double.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_CLASSIFICATION_LOSS_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_CLASSIFICATION_LOSS_H_

#include <cmath>
#include <vector>

#include "dtrain/ops/classification_loss.h"

namespace dtrain::reference {

inline std::vector<double> Probabilities(ClassificationLossKind kind,
                                         const std::vector<double>& logits) {
  std::vector<double> p = logits;
  if (kind == ClassificationLossKind::kMeanSquared) return p;
  double sum = 0.0;
  for (const double z : logits) sum += std::exp(z - logits[0]);
  for (double& z : p) {
    z = kind == ClassificationLossKind::kSoftmax ? std::exp(z - logits[0]) / sum
                                                 : 1.0 / (1.0 + std::exp(-z));
  }
  return p;
}

// v: of each output. A label that is not known (negative class, NaN) costs nothing.
inline double ClassificationLoss(ClassificationLossKind kind, const std::vector<double>& logits,
                                 const std::vector<double>& targets, const std::vector<double>& v) {
  if (kind == ClassificationLossKind::kSoftmax) {
    if (!(targets[0] >= 0.0)) return 0.0;
    const auto target = static_cast<size_t>(targets[0]);
    return -v[target] * std::log(Probabilities(kind, logits)[target]);
  }
  double loss = 0.0;
  for (size_t c = 0; c < logits.size(); ++c) {
    const double z = logits[c];
    const double y = targets[c];
    if (std::isnan(y)) continue;
    loss += v[c] * (kind == ClassificationLossKind::kMeanSquared
                        ? (z - y) * (z - y)
                        : std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))) - y * z);
  }
  return loss / static_cast<double>(logits.size());
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_CLASSIFICATION_LOSS_H_
