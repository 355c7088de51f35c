// nmt_train.cc - trains a translation model, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 -H a:2,b:2 nmt_train --config examples/nmt_train/configs/base.textproto
//       data.train_source=train.en data.train_target=train.de run.run_dir=runs/base
#include <memory>
#include <string>

#include "dtrain/dtrain.h"
#include "dtrain/nmt.pb.h"

namespace {

using namespace dtrain;

absl::StatusOr<TrainResult> Train(const proto::NmtConfig& config, RunRecorder& recorder,
                                  Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(const std::string data, PrepareData(config.data(), recorder.path(), runtime));
  DT_ASSIGN_OR_RETURN(
      const std::unique_ptr<TranslationTask> task,
      TranslationTask::Create(TaskOptionsOf(config, data, runtime.device), runtime.comm));
  DT_RETURN_IF_ERROR(CheckContract({{"data", task->DataContract()}}, runtime.comm));
  const MemoryPlan memory = PlanRun(config, task->model().options(), task->train_shard(), runtime);
  DT_RETURN_IF_ERROR(PrepareTranslationAttention(config, recorder.path(), memory.batch,
                                                 runtime.device, runtime.comm));
  runtime.memory_remedies = [&config, model = task->model().options(), memory,
                             device = runtime.device.type] {
    return MemoryRemedies(config, model, memory, device);
  };
  const ContextOptions context_options =
      ContextOptionsOf(config.trainer(), runtime.comm.rank(), memory.recompute);
  DT_RETURN_IF_ERROR(
      PrepareKernels(config.kernels(), recorder.path(), runtime.device, runtime.comm,
                     WarmUpSteps(task->model(), memory.batch, runtime.device, context_options)));
  Context context(runtime.device, context_options);
  TrainerOptions options = TrainerOptionsOf(config, recorder.path(), task->updates_per_epoch());
  DT_RETURN_IF_ERROR(ValidateSchedule(config.optimizer(), options.learning_rate.total_steps,
                                      options.max_seconds > 0.0));
  options.planned_activation_bytes = memory.recompute.peak_bytes;
  if (options.shard_optimizer) {
    DT_RETURN_IF_ERROR(OptimizerShards::CheckDevice(runtime.device));
  }
  Trainer trainer(*task, runtime.comm, context, options);
  trainer.set_observer(&recorder);
  trainer.set_stop_flags(&runtime.StopRequests());
  DT_RETURN_IF_ERROR(trainer.Resume(config.run().resume()));
  DT_RETURN_IF_ERROR(recorder.Begin(trainer.state()));
  recorder.OnEvent(trainer.state().step, "memory", memory.Describe());
  return trainer.Run();
}

absl::Status TrainNmt(const proto::NmtConfig& config, Runtime& runtime) {
  // Before anything is written or read by one rank for the others.
  DT_RETURN_IF_ERROR(CheckContract(
      {{"version", std::string(Version())}, {"configuration", TrainingContract(config)}},
      runtime.comm));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                      RunRecorder::Open("nmt_train", config.run(), config, runtime));
  return recorder->Run([&] { return Train(config, *recorder, runtime); }).status();
}

}  // namespace

int main(int argc, char** argv) {
  return dtrain::Main<proto::NmtConfig>(argc, argv,
                                        {.name = "nmt_train",
                                         .summary = "trains a translation model",
                                         .validate = ValidateNmtConfig,
                                         .run = TrainNmt});
}
