// random_values.h - reproducible inputs for tests, and the same numbers in double.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_RANDOM_VALUES_H_
#define DTRAIN_TESTS_TESTING_RANDOM_VALUES_H_

#include <cstdint>
#include <vector>

#include "dtrain/base/random.h"

namespace dtrain {

// `count` values, uniform in [-scale, scale), rounded to T.
template <typename T>
std::vector<T> RandomValues(int64_t count, uint64_t seed, float scale = 1.0f) {
  RandomStream random({.seed = seed});
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = T((2.0f * random.NextUniform() - 1.0f) * scale);
  return values;
}

template <typename T>
std::vector<double> ToDouble(const std::vector<T>& values) {
  std::vector<double> wide(values.size());
  for (size_t i = 0; i < values.size(); ++i) wide[i] = static_cast<double>(float(values[i]));
  return wide;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TESTING_RANDOM_VALUES_H_
