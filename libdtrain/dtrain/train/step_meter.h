// step_meter.h - adds up losses, tokens and times of updates and turns them into records.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_STEP_METER_H_
#define DTRAIN_TRAIN_STEP_METER_H_

#include <cstdint>
#include <optional>

#include "dtrain/comm/communicator.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/train/issued_update.h"
#include "dtrain/train/run_clock.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/train_observer.h"

namespace dtrain {

class StepMeter {
 public:
  // log_every: updates per record; 0: no records. The references outlive this.
  StepMeter(int64_t log_every, Communicator& comm, const RunClock& clock, StepTimeline& timeline)
      : log_every_(log_every), comm_(comm), clock_(clock), timeline_(timeline) {}

  // Training begins: the time until the first record counts from here.
  void Start() { window_ = {.start = clock_.Seconds()}; }

  // Adds an update and what the device decided about it. Every log_every updates it returns the
  // record since the last one; the caller fills in max_steps, skipped, eta_seconds and norms.
  // Collective for these updates: one sum of 16 bytes and 64 more for each rank, so that the times
  // of all ranks cost no message of their own.
  std::optional<StepRecord> Add(const IssuedUpdate& update, const StepState& decided);

 private:
  // Sums since the last record.
  struct Window {
    double start = 0.0;            // training time
    double loss = 0.0, nll = 0.0;  // of this rank
    int64_t updates = 0, tokens = 0;
    double source_tokens = 0.0, data_seconds = 0.0, comm_seconds = 0.0;
  };

  int64_t log_every_;
  Communicator& comm_;
  const RunClock& clock_;
  StepTimeline& timeline_;
  Window window_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_METER_H_
