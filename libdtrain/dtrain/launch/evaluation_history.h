// evaluation_history.h - the evaluations of a run so far: its best, and what they say of learning.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_EVALUATION_HISTORY_H_
#define DTRAIN_LAUNCH_EVALUATION_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/train/train_observer.h"

namespace dtrain {

// Knows the evaluations of this process alone: a resumed run may have had others before.
class EvaluationHistory {
 public:
  void AddUpdates(const StepRecord& record);
  // Returns a warning the first time that the loss on the dev set has risen in 3 evaluations in a
  // row while that of training fell, else "". The loss is the nll where the task has one.
  std::string AddEvaluation(const EvaluationRecord& record);

  // The best evaluation, if it is that of update `step`.
  const EvaluationResult* BestAt(int64_t step) const;
  // Whether the best evaluation was the last one, after at least one other.
  bool EndsWithBest() const;

 private:
  // One evaluation, and the updates before it.
  struct Point {
    int64_t step = 0;
    double dev = 0.0;
    double train = 0.0;  // mean of the records since the evaluation before
  };
  bool IsOverfitting() const;

  std::vector<Point> points_;
  double train_sum_ = 0.0;  // since the last evaluation
  int64_t train_records_ = 0;
  int64_t best_step_ = -1;
  std::optional<EvaluationResult> best_;
  bool has_warned_ = false;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_EVALUATION_HISTORY_H_
