// best_tracker.h - which evaluation of a run is the best, by one metric.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_BEST_TRACKER_H_
#define DTRAIN_TRAIN_BEST_TRACKER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "dtrain/train/train_state.h"

namespace dtrain {

// Whether `value` is better than `best` by more than `min_delta`.
inline bool Improves(bool smaller_is_better, double value, double best, double min_delta) {
  return smaller_is_better ? value < best - min_delta : value > best + min_delta;
}

class BestTracker {
 public:
  // metric: "" until SetMetricIfNone() or a checkpoint gives one.
  explicit BestTracker(std::string metric) : metric_(std::move(metric)) {}

  const std::string& metric() const { return metric_; }
  void SetMetricIfNone(const std::string& metric) {
    if (metric_.empty()) metric_ = metric;
  }
  int64_t step() const { return step_; }  // of the best evaluation; -1: none yet
  double value() const { return value_; }

  // The metric is `value` at `step`. Returns whether that is the best so far, which it then keeps.
  bool Offer(int64_t step, double value, bool smaller_is_better);

  void Save(TrainState& state) const;
  // Keeps its own metric if it has one.
  void Restore(const TrainState& state);
  // Prepares the state of a checkpoint for a run that tracks `metric()`. A run of its own
  // (`is_own`) without a metric keeps the checkpoint's. Returns a sentence if the best evaluation
  // is forgotten because the checkpoint chose by another metric; else "".
  std::string Adopt(bool is_own, TrainState& state) const;
  // Removes the best evaluation from a state. A finished run then evaluates its last weights again.
  static void Forget(TrainState& state);

 private:
  std::string metric_;
  double value_ = 0.0;
  int64_t step_ = -1;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_BEST_TRACKER_H_
