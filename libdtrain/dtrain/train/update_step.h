// update_step.h - one update: load data, forward, backward, exchange, apply.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_UPDATE_STEP_H_
#define DTRAIN_TRAIN_UPDATE_STEP_H_

#include <cstdint>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/train/issued_update.h"
#include "dtrain/train/norm_meter.h"
#include "dtrain/train/request_inbox.h"
#include "dtrain/train/run_clock.h"
#include "dtrain/train/step_graphs.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"
#include "dtrain/train/trainer_options.h"

namespace dtrain {

class UpdateStep {
 public:
  // All references outlive this.
  UpdateStep(TrainingTask& task, Communicator& comm, Context& ctx, StepTimeline& timeline,
             GradientStrategy& strategy, DeviceStep& device_step, const TrainerOptions& options);
  ~UpdateStep();
  UpdateStep(const UpdateStep&) = delete;
  UpdateStep& operator=(const UpdateStep&) = delete;

  // Loads the data of the update after the first `step` ones and computes its gradients, which the
  // ranks then exchange together with clock, token counts and requests. Fills in those fields of
  // the update. Collective.
  StatusOr<IssuedUpdate> ComputeGradients(int64_t step, RequestInbox& inbox, const RunClock& clock);
  // Applies the gradients with update.learning_rate, unless the device decides to skip the update.
  void ApplyGradients(const IssuedUpdate& update);

  // Updates made by this object.
  int64_t count() const { return count_; }
  // "activations took 12.0 MiB at most ..., 14.0 MiB were planned"; "" if nothing was planned or
  // there was no update.
  std::string DescribeMemory() const;
  const StepGraphs& graphs() const { return graphs_; }
  // Has measured the updates that are due, while they were applied.
  NormMeter& norms() { return norms_; }
  Stream& stream() { return ctx_.stream(); }

 private:
  void RunMicroBatches(int count, int64_t step, LossSums& sums);
  // Loss sums and gradients of one micro-batch. Gradients travel with the last one.
  LossSums RunMicroBatch(int i, bool is_last);
  void ExchangeScalars(RequestInbox& inbox, const RunClock& clock, IssuedUpdate& update);

  TrainingTask& task_;
  Communicator& comm_;
  Context& ctx_;
  StepTimeline& timeline_;
  GradientStrategy& strategy_;
  DeviceStep& device_step_;
  const TrainerOptions& options_;
  StepGraphs graphs_;
  NormMeter norms_;
  int64_t count_ = 0;
  int64_t activation_peak_ = 0;  // bytes
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_UPDATE_STEP_H_
