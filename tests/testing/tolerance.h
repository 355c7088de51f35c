// tolerance.h - how far results lie apart, and may lie from a reference, by element type.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TOLERANCE_H_
#define DTRAIN_TESTS_TESTING_TOLERANCE_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "dtrain/base/dtype.h"

namespace dtrain {

// Largest difference allowed, relative to the largest magnitude of the expected values.
constexpr double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 1.6e-2;
    case DType::kFloat16:
      return 2e-3;
    case DType::kFloat64:
      return 1e-12;
    default:
      return 1e-5;
  }
}
template <typename T>
inline constexpr double kTolerance = ToleranceOf(kDTypeOf<T>);

// max |actual - expected| / max |expected|; infinite where a value is NaN or the sizes differ.
template <typename T>
double RelativeError(std::span<const T> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = static_cast<double>(static_cast<float>(actual[i]));
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(value - expected[i]));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}

// max |a - b|; infinite where a value is NaN, the sizes differ or there is nothing to compare.
inline double LargestDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  }
  return worst;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TESTING_TOLERANCE_H_
