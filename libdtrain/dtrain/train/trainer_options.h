// trainer_options.h - the settings of a Trainer: limits, rates, evaluations, checkpoints, ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   Trainer trainer(task, comm, ctx, {.max_steps = 1000,
//                                     .learning_rate = {.base = 3e-4},
//                                     .eval_every = {PeriodUnit::kUpdates, 100},
//                                     .checkpoint_dir = "runs/mine/ckpt"});
#ifndef DTRAIN_TRAIN_TRAINER_OPTIONS_H_
#define DTRAIN_TRAIN_TRAINER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "dtrain/base/period.h"
#include "dtrain/base/status.h"
#include "dtrain/device/stream.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/loss_scaler.h"
#include "dtrain/optim/lr_schedule.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/train/step_graphs.h"
#include "dtrain/train/step_timeline.h"

namespace dtrain {

// Ends a run whose evaluations no longer improve.
struct EarlyStopOptions {
  std::string metric = {};  // "": TrainerOptions::best_metric
  int patience = 0;         // evaluations without improvement before the run ends; 0: never
  double min_delta = 0.0;   // a smaller change is no improvement
  int64_t min_steps = 0;    // evaluations before this update do not count
};

struct TrainerOptions {
  // Limits of the run, which ends at the first it reaches. 0: no limit.
  int64_t max_steps = 0;     // updates, skipped ones included
  double max_seconds = 0.0;  // of training, summed over resumed processes, without evaluations
  int64_t max_epochs = 0;    // passes over the training data

  // Number of updates in the first epoch, or 0 if unknown. Later epochs may differ slightly when
  // batches are limited by tokens. If learning_rate.total_steps equals UpdatesOf() the limits, the
  // trainer replaces it with the end that the task counts (EpochInfo::updates_until).
  int64_t updates_per_epoch = 0;
  // True if the learning rate's total_steps and warmup_steps were computed from epochs. A run that
  // resumes with other batches then continues from the epochs done, else from the updates done.
  bool is_rate_of_epochs = false;
  // Skipped updates count towards max_steps and advance the schedule; otherwise the run length
  // would depend on how many overflows occur. Adam's bias correction does not count them.
  LrScheduleOptions learning_rate = {};
  AdamConfig adam = {};
  double clip_norm = 1.0;  // largest norm of the mean gradient; 0: no limit
  LossScalerOptions loss_scaler = {};

  Period eval_every = {};
  Period checkpoint_every = {};
  double checkpoint_seconds = 600.0;  // longest training time without a checkpoint; 0: no limit
  std::string checkpoint_dir = {};    // "": no checkpoints
  int keep_last = 2;                  // checkpoints kept besides the best one
  // The metric that chooses the best checkpoint. Evaluation::smaller_is_better gives its direction.
  // "": the first metric of the task's evaluations; a resumed run keeps the metric it chose by.
  std::string best_metric = {};
  EarlyStopOptions early_stop = {};
  int64_t log_every = 10;        // updates per StepRecord; 0: no records
  double startup_seconds = 0.0;  // until Trainer::Run(), for the first record's phases
  // Measures what only a report of the run needs: Evaluation::sample, and norms of groups of
  // parameters (StepRecord::norms). Changes no weight.
  bool details = false;

  // Each rank keeps the optimizer state of a shard of the parameters (optimizer_shards.h);
  // checkpoints are the same.
  bool shard_optimizer = false;
  int64_t replica_check_every = 100;  // updates between CheckReplicas(); 0: never
  GradientReducerOptions reducer = {};
  // Above 1: local updates. Each rank makes this many updates from its own gradients; then weights
  // and moments are averaged over the ranks, weighted by tokens. Evaluations, checkpoints and
  // requested stops wait for the average. Not with reducer.power_sgd.
  int64_t sync_every = 1;
  // Number of updates from the gradients of all ranks before local updates start (post-local SGD,
  // Lin et al. 2020).
  int64_t sync_every_start = 0;

  CudaGraphs cuda_graphs = CudaGraphs::kAuto;
  StepTimelineOptions timeline = {};
  // Expected memory of an update's activations. After ten updates the trainer reports it together
  // with the measured memory. 0: no report.
  int64_t planned_activation_bytes = 0;
};

// Returns UsageError if no limit would ever end the run. Early stopping counts as a limit if there
// are evaluations.
Status CheckEnds(const TrainerOptions& options);

// The parts of the options that the device decides by, and that ranks exchange by.
// losses_per_update: about how many losses all ranks sum in an update; 0 if unknown.
StepRules RulesOf(const TrainerOptions& options, double losses_per_update);
GradientStrategyOptions StrategyOf(const TrainerOptions& options, const Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAINER_OPTIONS_H_
