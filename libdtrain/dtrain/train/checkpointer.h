// checkpointer.h - when a run is saved, and how it resumes from a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_CHECKPOINTER_H_
#define DTRAIN_TRAIN_CHECKPOINTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/period.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/train/evaluator.h"
#include "dtrain/train/run_progress.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_observer.h"
#include "dtrain/train/train_state.h"
#include "dtrain/train/trainer_options.h"

namespace dtrain {

// The root reads and writes; the other ranks give and receive their shards of the optimizer.
class Checkpointer {
 public:
  // All references outlive this.
  Checkpointer(TrainingTask& task, Communicator& comm, StepTimeline& timeline,
               const TrainerOptions& options);

  // Resuming. `from`: "auto", the newest good checkpoint of checkpoint_dir, if there is one;
  // "never"; or the path of a checkpoint or run directory. Gives all ranks the weights, optimizer
  // and state of the checkpoint, or those of the root if there is none. Returns the checkpoint's
  // path, on the root; "" if there is none. StorageError if no checkpoint is good, or the one at
  // `from` is of another model or, in a run of its own, of other training data. Collective.
  StatusOr<std::string> Load(const std::string& from, const Evaluator& evaluator,
                             GradientStrategy& strategy, TrainObserver& observer,
                             TrainState& state);
  // The run continues from `path`, which Load() gave, at `progress`. Puts checkpoints of later
  // updates aside: "auto" would find them, and deleting old checkpoints would spare them as the
  // newest. Reports where the run continues.
  void FinishResume(const std::string& path, const RunProgress& progress, TrainObserver& observer);
  // An addition to this run's command that makes it resume: " with --resume=auto" or "".
  std::string ResumeHint() const { return resumed_from_ == "auto" ? "" : " with --resume=auto"; }

  // Training begins, at `seconds` of training time.
  void Start(double seconds) { last_seconds_ = seconds; }
  // A checkpoint is due if one of options.checkpoint_every lies in (before, now], if the last one
  // is older than options.checkpoint_seconds or if `wanted`. It stays due until Save().
  void MarkDue(const PeriodClock& before, const PeriodClock& now, bool wanted);
  bool is_due() const { return is_due_; }
  // Writes a checkpoint, if there is a directory for it. best_metric: the metric by which this
  // state is the best, else "". Collective.
  Status Save(const TrainState& state, const std::string& best_metric, GradientStrategy& strategy,
              TrainObserver& observer);
  bool is_on() const { return !options_.checkpoint_dir.empty(); }
  // The update of the last checkpoint that was written or loaded; -1: none.
  int64_t last_step() const { return last_step_; }

 private:
  // On the root.
  StatusOr<std::string> LoadOnRoot(const Evaluator& evaluator, GradientStrategy& strategy,
                                   TrainObserver& observer, TrainState& state);
  Status AdoptTrainingData(const Checkpoint& checkpoint, TrainObserver& observer,
                           TrainState& state) const;
  Status RestoreBestLink(const Evaluator& evaluator, TrainState& state) const;
  Status WriteOnRoot(const TrainState& state, const std::string& best_metric,
                     std::vector<CheckpointFile> more, GradientStrategy& strategy,
                     TrainObserver& observer) const;

  TrainingTask& task_;
  const Identity identity_;
  Communicator& comm_;
  StepTimeline& timeline_;
  const TrainerOptions& options_;
  std::string resumed_from_ = "auto";  // what Load() was given
  int64_t last_step_ = -1;
  double last_seconds_ = 0.0;  // training time at the last checkpoint
  bool is_due_ = false;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_CHECKPOINTER_H_
