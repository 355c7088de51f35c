// published_model.h - how tests compare a folder that transformers saved with its golden.json.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_PUBLISHED_MODEL_H_
#define DTRAIN_TESTING_PUBLISHED_MODEL_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "testing/catch.h"

namespace dtrain::testing {

// The largest difference of values that are in `theirs`, which may be the first ones only.
inline double LargestDifference(const std::vector<float>& ours, const std::vector<float>& theirs) {
  REQUIRE(ours.size() >= theirs.size());
  double largest = 0.0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, std::abs(double{ours[i]} - theirs[i]));
  }
  return largest;
}

inline double Norm(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_PUBLISHED_MODEL_H_
