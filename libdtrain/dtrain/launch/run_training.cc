// run_training.cc - the trainer between its task and the run's observer and requests.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_training.h"

#include "dtrain/runs/checkpoint_directory.h"

namespace dtrain {

bool WillResume(const std::string& resume, const std::string& run_dir) {
  if (resume != "auto") return resume != "never";
  return !ListCheckpoints(run_dir + "/ckpt").empty();
}

StatusOr<TrainResult> RunTraining(TrainingTask& task, const RunTrainingOptions& options,
                                  RunRecorder& recorder, Runtime& runtime) {
  CheckComputeType(task, options.context.compute_type);
  DT_RETURN_IF_ERROR(CheckEnds(options.trainer));
  const Identity identity = task.identity();
  std::vector<AgreementSection> agreement = {
      {"data", identity.shared_data.empty() ? identity.training_data : identity.shared_data}};
  agreement.insert(agreement.end(), options.agreement.begin(), options.agreement.end());
  DT_RETURN_IF_ERROR(CheckRanksAgree(agreement, runtime.comm));
  if (options.prepare) DT_RETURN_IF_ERROR(options.prepare());
  ContextOptions context_options = options.context;
  context_options.rank = runtime.comm.rank();
  Context context(runtime.device, context_options);
  TrainerOptions trainer_options = options.trainer;
  recorder.Complete(trainer_options);
  Trainer trainer(task, runtime.comm, context, trainer_options);
  trainer.set_observer(&recorder);
  trainer.set_stop_flags(&runtime.StopRequests());
  DT_RETURN_IF_ERROR(trainer.Resume(options.resume));
  DT_RETURN_IF_ERROR(recorder.Begin(trainer.state()));
  if (!options.memory.empty()) recorder.OnEvent(trainer.state().step, "memory", options.memory);
  return trainer.Run();
}

}  // namespace dtrain
