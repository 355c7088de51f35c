// metric_warnings.h - warns if the metrics that steer a run are missing or not numbers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_METRIC_WARNINGS_H_
#define DTRAIN_TRAIN_METRIC_WARNINGS_H_

#include <set>
#include <string>
#include <vector>

#include "dtrain/train/task.h"

namespace dtrain {

// A metric that decides something, and what happens if it has no value.
struct SteeringMetric {
  std::string name;
  std::string if_missing;    // "the run does not stop early"
  std::string if_undefined;  // "it cannot choose the best checkpoint"
};

class MetricWarnings {
 public:
  // Only the root logs.
  explicit MetricWarnings(bool is_root) : is_root_(is_root) {}

  // Looks at one evaluation. Warns once about metrics that the task does not give, and each time a
  // metric becomes infinite or NaN.
  void Look(const EvaluationResult& result, const std::vector<SteeringMetric>& steering);

 private:
  bool is_root_;
  bool has_looked_ = false;          // for missing ones
  std::set<std::string> undefined_;  // metrics of the last evaluation
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_METRIC_WARNINGS_H_
