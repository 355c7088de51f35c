// trainer.h - the training loop: updates, evaluations, checkpoints, stopping and resuming.
// SPDX-License-Identifier: Apache-2.0
//
//   Trainer trainer(task, communicator, context, options);
//   DT_RETURN_IF_ERROR(trainer.Resume("auto"));
//   DT_ASSIGN_OR_RETURN(const TrainResult result, trainer.Run());
//
// All ranks run the same loop. Ranks may differ in their clocks and in the signals they receive, so
// they first combine these; every decision is then the same on every rank.
//
// Each duty has a class of its own:
//   UpdateStep        loads data, computes gradients and applies them
//   GradientStrategy  exchanges gradients or weights between ranks (distributed/)
//   DecisionQueue     reads what the device decided about earlier updates
//   StepMeter         turns updates into records
//   RunPlan           knows limits, learning rate and remaining time
//   RunClock          measures training time
//   Evaluator         evaluates, keeps the best, stops early
//   Checkpointer      saves and resumes
//   RequestInbox      collects what signals ask for
#ifndef DTRAIN_TRAIN_TRAINER_H_
#define DTRAIN_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/base/stop_flags.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/nn/context.h"
#include "dtrain/optim/adam.h"
#include "dtrain/train/checkpointer.h"
#include "dtrain/train/decision_queue.h"
#include "dtrain/train/end_reason.h"
#include "dtrain/train/evaluator.h"
#include "dtrain/train/request_inbox.h"
#include "dtrain/train/run_clock.h"
#include "dtrain/train/run_plan.h"
#include "dtrain/train/run_progress.h"
#include "dtrain/train/step_graphs.h"
#include "dtrain/train/step_meter.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_observer.h"
#include "dtrain/train/train_state.h"
#include "dtrain/train/trainer_options.h"
#include "dtrain/train/update_step.h"

namespace dtrain {

struct TrainResult {
  TrainState state;
  EndReason reason = EndReason::kMaxSteps;
  std::optional<EvaluationResult> last_evaluation;
  std::optional<EvaluationResult> test_evaluation;  // if the task has a test set
};

class Trainer {
 public:
  // All references outlive the trainer. CheckError if they do not fit each other: the task's
  // parameters must be allocated for the context's compute type, the context must have the
  // communicator's rank, and the learning rate must be complete (CheckSchedule()).
  Trainer(TrainingTask& task, Communicator& comm, Context& ctx, const TrainerOptions& options);

  void set_observer(TrainObserver* observer) { observer_ = observer; }
  // Requests to this rank from outside, by signals for instance; the flags outlive the trainer.
  void set_stop_flags(StopFlags* flags) { inbox_.set_flags(flags); }

  // Before Run(). "auto": continues from the newest good checkpoint of checkpoint_dir, if there is
  // one. "never": starts anew. Otherwise the path of a checkpoint or run directory to continue
  // from; UsageError if it has reached a limit of this run already. Later checkpoints in
  // checkpoint_dir are renamed to .refused-NAME. The root reads, all ranks receive. Collective.
  Status Resume(const std::string& from);
  // Trains to the end. UsageError if nothing would end the run (CheckEnds()), or if PowerSGD needs
  // BatchInfo::global_tokens of the task. StoppedError after a requested stop. DivergedError if
  // gradients stay infinite or NaN. Collective.
  StatusOr<TrainResult> Run();

  TrainState state() const;
  Adam& optimizer() { return strategy_->optimizer(); }
  const StepGraphs& graphs() const { return step_.graphs(); }

 private:
  // Gives each part what belongs to it.
  Status Restore(const TrainState& state);
  // An event of this update, unless `text` is "".
  void Report(const std::string& kind, const std::string& text);

  StatusOr<IssuedUpdate> RunUpdate();
  // Reads what the device decided about the updates that are due, or about all of them.
  Status Collect(bool all);
  Status StartLocalUpdatesIfDue();
  // Makes the ranks' weights equal if they differ.
  Status AverageReplicas();
  // Evaluates and saves if either is due and the ranks' weights are equal. `before`: the clock
  // before the last update.
  Status DoPeriodic(const PeriodClock& before, const Requests& requests);
  Status Evaluate(bool is_last);
  Status Save();

  std::optional<EndReason> ReasonToEnd(bool stop_requested) const;
  Status Finish(EndReason reason);
  Status FinishStopped();

  const TrainerOptions options_;
  TrainingTask& task_;
  Communicator& comm_;
  TrainObserver* observer_;
  StepTimeline timeline_;
  RunClock clock_;
  RunProgress progress_;
  DecisionQueue decisions_;
  std::unique_ptr<GradientStrategy> strategy_;
  RunPlan plan_;
  StepMeter meter_;
  RequestInbox inbox_;
  Evaluator evaluator_;
  Checkpointer checkpointer_;
  UpdateStep step_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAINER_H_
