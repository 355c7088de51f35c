// early_stop.h - ends a run after several evaluations without improvement.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_EARLY_STOP_H_
#define DTRAIN_TRAIN_EARLY_STOP_H_

#include <cstdint>
#include <string>

#include "dtrain/train/train_state.h"
#include "dtrain/train/trainer_options.h"

namespace dtrain {

class EarlyStop {
 public:
  // best_metric: watched if the options name no metric.
  EarlyStop(const EarlyStopOptions& options, const std::string& best_metric);

  bool is_on() const { return options_.patience > 0; }
  const std::string& metric() const { return options_.metric; }
  void SetMetricIfNone(const std::string& metric) {
    if (options_.metric.empty()) options_.metric = metric;
  }

  // The metric is `value` at `step`. A value that is infinite or NaN is no improvement.
  void Watch(int64_t step, double value, bool smaller_is_better);
  // Whether the run should end.
  bool is_reached() const { return is_on() && stalled_ >= options_.patience; }

  void Save(TrainState& state) const;
  // Keeps its own metric if it has one.
  void Restore(const TrainState& state);
  // As BestTracker::Adopt().
  std::string Adopt(bool is_own, TrainState& state) const;
  static void Forget(TrainState& state);

 private:
  EarlyStopOptions options_;
  double best_ = 0.0;
  int64_t best_step_ = -1;  // -1: no evaluation yet
  int64_t stalled_ = 0;     // evaluations since the best one
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_EARLY_STOP_H_
