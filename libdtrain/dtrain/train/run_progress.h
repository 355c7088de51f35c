// run_progress.h - how far a run has come, in updates, data, tokens and time.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_RUN_PROGRESS_H_
#define DTRAIN_TRAIN_RUN_PROGRESS_H_

#include <cstdint>

#include "dtrain/base/period.h"
#include "dtrain/data/data_position.h"
#include "dtrain/train/train_state.h"

namespace dtrain {

// The same on all ranks.
struct RunProgress {
  int64_t step = 0;            // updates so far, skipped ones included
  DataPosition position = {};  // where the next update's data begins
  double epochs = 0.0;         // the position as a number: 1.5 is halfway through the second epoch
  int64_t target_tokens = 0;   // so far, all ranks
  double seconds = 0.0;        // training time by the root's clock

  PeriodClock Clock() const {
    return {.updates = step, .epochs = epochs, .tokens = target_tokens, .seconds = seconds};
  }
  void Save(TrainState& state) const {
    state.step = step;
    state.position = position;
    state.target_tokens = target_tokens;
    state.seconds = seconds;
  }
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_RUN_PROGRESS_H_
