// best_tracker.cc - the best value so far, and what remains of it when a run resumes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/best_tracker.h"

#include "absl/strings/str_format.h"

namespace dtrain {

bool BestTracker::Offer(int64_t step, double value, bool smaller_is_better) {
  if (step_ >= 0 && !Improves(smaller_is_better, value, value_, /*min_delta=*/0.0)) return false;
  value_ = value;
  step_ = step;
  return true;
}

void BestTracker::Save(TrainState& state) const {
  state.best_metric_name = metric_;
  state.best_metric = value_;
  state.best_step = step_;
}

void BestTracker::Restore(const TrainState& state) {
  SetMetricIfNone(state.best_metric_name);
  value_ = state.best_metric;
  step_ = state.best_step;
}

std::string BestTracker::Adopt(bool is_own, TrainState& state) const {
  std::string& theirs = state.best_metric_name;
  if (metric_.empty()) {
    // A metric that no evaluation had is none to keep.
    if (!is_own || state.best_step < 0) theirs = "";
    return "";
  }
  if (theirs.empty() || theirs == metric_) return "";
  Forget(state);
  return absl::StrFormat(
      "the choice of the best checkpoint looks at %s from here on, no longer at %s", metric_,
      theirs);
}

void BestTracker::Forget(TrainState& state) {
  state.best_metric = 0.0;
  state.best_step = -1;
  state.evaluated_step = -1;
}

}  // namespace dtrain
