// early_stop.cc - counts evaluations that did not improve.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/early_stop.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "dtrain/train/best_tracker.h"

namespace dtrain {

EarlyStop::EarlyStop(const EarlyStopOptions& options, const std::string& best_metric)
    : options_(options) {
  SetMetricIfNone(best_metric);
}

void EarlyStop::Watch(int64_t step, double value, bool smaller_is_better) {
  if (!is_on() || step < options_.min_steps) return;
  const bool is_better =
      std::isfinite(value) &&
      (best_step_ < 0 || Improves(smaller_is_better, value, best_, options_.min_delta));
  if (!is_better) {
    ++stalled_;
    return;
  }
  best_ = value;
  best_step_ = step;
  stalled_ = 0;
}

void EarlyStop::Save(TrainState& state) const {
  state.early_stop_metric_name = options_.metric;
  state.early_stop_best = best_;
  state.early_stop_step = best_step_;
  state.stalled_evaluations = stalled_;
}

void EarlyStop::Restore(const TrainState& state) {
  SetMetricIfNone(state.early_stop_metric_name);
  best_ = state.early_stop_best;
  best_step_ = state.early_stop_step;
  stalled_ = state.stalled_evaluations;
}

std::string EarlyStop::Adopt(bool is_own, TrainState& state) const {
  std::string& theirs = state.early_stop_metric_name;
  if (metric().empty()) {
    if (!is_own || state.early_stop_step < 0) theirs = "";
    return "";
  }
  if (theirs.empty() || theirs == metric()) return "";
  Forget(state);
  return absl::StrFormat("early stopping looks at %s from here on, no longer at %s", metric(),
                         theirs);
}

void EarlyStop::Forget(TrainState& state) {
  state.early_stop_best = 0.0;
  state.early_stop_step = -1;
  state.stalled_evaluations = 0;
}

}  // namespace dtrain
