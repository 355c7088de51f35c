// run_plan.h - where a run ends, which learning rate each update has and how much time is left.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_RUN_PLAN_H_
#define DTRAIN_TRAIN_RUN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/optim/lr_schedule.h"
#include "dtrain/train/end_reason.h"
#include "dtrain/train/run_progress.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_observer.h"
#include "dtrain/train/train_state.h"
#include "dtrain/train/trainer_options.h"

namespace dtrain {

class RunPlan {
 public:
  // Limits and schedule of `options`, which outlive this. CheckError if the schedule is incomplete
  // (CheckSchedule()) or follows a time budget that there is none of.
  explicit RunPlan(const TrainerOptions& options);

  // Continues with the epochs that a checkpoint counted.
  void Restore(const TrainState& state) { epoch_count_ = state.epoch_count; }
  void Save(TrainState& state) const { state.epoch_count = epoch_count_; }
  // Counts the updates from `progress` to the last epoch's end and moves the end of the run, and of
  // a learning rate that falls to an end, there. If an epoch has another number of updates than
  // before a resume, returns a sentence that says so; else "".
  std::string PlanEnd(const RunProgress& progress, const UpdatesUntil& updates_until);
  // UsageError if a run that resumes from `checkpoint` has reached a limit already.
  Status CheckLimits(const std::string& checkpoint, const RunProgress& progress) const;

  // The limit that the run has reached, if any.
  std::optional<EndReason> ReachedLimit(const RunProgress& progress) const;
  // The rate of the update after the first `step` ones. `seconds`: the training time so far.
  double LearningRateAt(int64_t step, double seconds) const;
  // Fills in the record's max_steps and eta_seconds.
  void AddOutlook(StepRecord& record) const;
  // The run's number of updates, about; 0 if unknown.
  int64_t planned_end() const { return planned_end_; }

 private:
  // For tasks that do not count the updates of the epochs left.
  int64_t EstimatedEnd() const;

  const TrainerOptions& options_;
  LrScheduleOptions learning_rate_;  // total_steps moves with the end of the run
  int64_t planned_end_;
  int64_t rate_shift_ = 0;  // updates made beyond those that today's batches need for the same data
  EpochCount epoch_count_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_RUN_PLAN_H_
