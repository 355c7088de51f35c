// layer_norm.h - layer norm of ops/layer_norm.h in double, as plain loops.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_LAYER_NORM_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_LAYER_NORM_H_

#include <cmath>
#include <cstddef>
#include <vector>

namespace dtrain::reference {

struct LayerNormResult {
  std::vector<double> y, mean, rstd;
};

// x: rows of gamma.size() columns.
inline LayerNormResult LayerNorm(const std::vector<double>& x, const std::vector<double>& gamma,
                                 const std::vector<double>& beta, double epsilon) {
  const size_t columns = gamma.size();
  LayerNormResult result;
  result.y.resize(x.size());
  for (size_t r = 0; r < x.size() / columns; ++r) {
    const double* const row = x.data() + r * columns;
    double mean = 0.0;
    for (size_t c = 0; c < columns; ++c) mean += row[c];
    mean /= static_cast<double>(columns);
    double variance = 0.0;
    for (size_t c = 0; c < columns; ++c) variance += (row[c] - mean) * (row[c] - mean);
    variance /= static_cast<double>(columns);
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (size_t c = 0; c < columns; ++c) {
      result.y[r * columns + c] = (row[c] - mean) * rstd * gamma[c] + beta[c];
    }
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_LAYER_NORM_H_
