// nmt_runs.cc - a translation run: corpus, task, plans, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/nmt_runs.h"

#include <memory>
#include <string>

#include "dtrain/app/attention_plan_file.h"
#include "dtrain/app/kernel_plans.h"
#include "dtrain/app/memory_plan.h"
#include "dtrain/app/nmt_config.h"
#include "dtrain/app/nmt_options.h"
#include "dtrain/app/run_recorder.h"
#include "dtrain/app/run_training.h"
#include "dtrain/app/version.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/parallel/contract.h"
#include "dtrain/tasks/translation_task.h"

namespace dtrain {
namespace {

// In the folder of the recorder.
absl::StatusOr<TrainResult> Train(const proto::NmtConfig& config, RunRecorder& recorder,
                                  Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(const std::string data, PrepareData(config.data(), recorder.path(), runtime));
  DT_ASSIGN_OR_RETURN(
      const std::unique_ptr<TranslationTask> task,
      TranslationTask::Create(TaskOptionsOf(config, data, runtime.device), runtime.comm));
  DT_RETURN_IF_ERROR(CheckDevSet(config, *task, runtime));
  const Seq2SeqOptions& model = task->model().options();
  const MemoryPlan memory = PlanRun(config, model, task->train_shard(), runtime);
  // Asked when the run and its configuration are gone.
  runtime.memory_remedies = [config, model, memory, device = runtime.device.type] {
    return MemoryRemedies(config, model, memory, device);
  };
  RunTrainingOptions options{
      .trainer = TrainerOptionsOf(config, recorder.path(), task->updates_per_epoch()),
      .context = ContextOptionsOf(config.trainer(), runtime.comm.rank(), memory.recompute),
      .resume = config.run().resume(),
      .memory = memory.Describe()};
  options.trainer.planned_activation_bytes = memory.recompute.peak_bytes;
  DT_RETURN_IF_ERROR(ValidateSchedule(config.optimizer(), options.trainer.learning_rate.total_steps,
                                      options.trainer.max_seconds > 0.0));
  options.prepare = [&]() -> absl::Status {
    DT_RETURN_IF_ERROR(PrepareTranslationAttention(config, recorder.path(), memory.batch,
                                                   runtime.device, runtime.comm));
    return PrepareKernels(
        config.kernels(), recorder.path(), runtime.device, runtime.comm,
        WarmUpSteps(task->model(), memory.batch, runtime.device, options.context));
  };
  return RunTraining(*task, options, recorder, runtime);
}

}  // namespace

absl::Status TrainNmt(const proto::NmtConfig& config, Runtime& runtime) {
  // Before anything is written or read by one rank for the others.
  DT_RETURN_IF_ERROR(CheckContract(
      {{"version", std::string(Version())}, {"configuration", TrainingContract(config)}},
      runtime.comm));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                      RunRecorder::Open("nmt_train", config.run(), config, runtime));
  return recorder->Run([&] { return Train(config, *recorder, runtime); }).status();
}

}  // namespace dtrain
