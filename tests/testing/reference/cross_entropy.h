// cross_entropy.h - label-smoothed cross-entropy of ops/cross_entropy.h in double.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_CROSS_ENTROPY_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_CROSS_ENTROPY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace dtrain::reference {

inline double LogSumExp(const std::vector<double>& x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const double value : x) sum += std::exp(value - max);
  return max + std::log(sum);
}

// The loss of one row: -sum_c q_c log p_c. A negative target costs nothing.
inline double CrossEntropy(const std::vector<double>& logits, int target, double smoothing) {
  if (target < 0) return 0.0;
  const double log_sum_exp = LogSumExp(logits);
  double loss = 0.0;
  for (size_t c = 0; c < logits.size(); ++c) {
    const double q = (static_cast<int>(c) == target ? 1.0 - smoothing : 0.0) +
                     smoothing / static_cast<double>(logits.size());
    if (q > 0.0) loss -= q * (logits[c] - log_sum_exp);
  }
  return loss;
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_CROSS_ENTROPY_H_
