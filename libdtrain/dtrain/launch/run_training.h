// run_training.h - a task trained in the directory of its run, from its checkpoint to the end.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
//                       RunRecorder::Open("my_program", {.run_dir = "runs/mine"},
//                                         "hidden_size: 64\n", runtime));
//   return recorder->Run([&]() -> StatusOr<TrainResult> {
//     MyTask task(...);
//     return RunTraining(task, {.trainer = {.max_steps = 1000}}, *recorder, runtime);
//   }).status();
#ifndef DTRAIN_LAUNCH_RUN_TRAINING_H_
#define DTRAIN_LAUNCH_RUN_TRAINING_H_

#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/run_recorder.h"
#include "dtrain/nn/context.h"
#include "dtrain/train/task.h"
#include "dtrain/train/trainer.h"

namespace dtrain {

struct RunTrainingOptions {
  // Further texts that all ranks must have alike, besides the task's data.
  std::vector<AgreementSection> agreement = {};
  TrainerOptions trainer = {};
  // The rank is the runtime's, whatever it says here.
  ContextOptions context = {};
  std::string resume = "auto";  // Trainer::Resume()
  // Called when it is known that the run can be, before a trainer listens to the parameters: what
  // measures kernels, or loads weights to begin with. Collective.
  std::function<Status()> prepare = {};
  std::string memory = {};  // what was planned of it, for the run's events; "" tells nothing
};

// True if Trainer::Resume(resume) will take the weights of a checkpoint in `run_dir`. Looks at the
// disk, so that the root rank decides for all.
bool WillResume(const std::string& resume, const std::string& run_dir);

// Trains a task, whose parameters are allocated, as the recorder's run: from the checkpoint that
// `resume` says to the end or to a requested stop, with events, curves and the terminal. Called in
// RunRecorder::Run(), once. UsageError: ranks with other data or another `agreement`, options that
// cannot be on this device, or no limit that ends the run. CheckError where the task's parameters
// are not allocated, or for another compute type than `context` has. Collective.
StatusOr<TrainResult> RunTraining(TrainingTask& task, const RunTrainingOptions& options,
                                  RunRecorder& recorder, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUN_TRAINING_H_
