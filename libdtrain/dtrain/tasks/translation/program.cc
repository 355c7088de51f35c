// program.cc - a translation run: corpus, task, plans, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/launch/run_recorder.h"
#include "dtrain/launch/run_training.h"
#include "dtrain/launch/version.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/attention_plan_file.h"
#include "dtrain/tasks/shared/kernel_plans.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/export.h"
#include "dtrain/tasks/translation/internal/initial_model.h"
#include "dtrain/tasks/translation/memory_plan.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/tasks/translation/task.h"
#include "dtrain/tasks/translation/warm_up.h"
#include "dtrain/tasks/translation/workload.h"

namespace dtrain {
namespace {

// Of the open data: UsageError where trainer.early_stop.patience has no dev set to look at, so that
// it would never end the run. Warns, on the root rank, of a trainer.eval_every without one.
Status CheckDevSet(const proto::NmtConfig& config, const TranslationTask& task,
                   const Runtime& runtime) {
  if (task.has_dev()) return OkStatus();
  const proto::TrainerConfig& trainer = config.trainer();
  constexpr char kRemedy[] =
      "give the data one (data.dev_source and data.dev_target, data.dev_tsv or data.hold_out_dev; "
      "`dtrain prepare` takes them too)";
  if (trainer.early_stop().patience() > 0) {
    return UsageError(absl::StrCat("trainer.early_stop.patience needs a dev set: ", kRemedy));
  }
  if (trainer.has_eval_every() && !trainer.eval_every().empty() && runtime.comm.is_root()) {
    LogWarning(absl::StrCat("trainer.eval_every=", trainer.eval_every(),
                            ", but there is no dev set to evaluate on: ", kRemedy));
  }
  return OkStatus();
}

// Makes the prepared data folder if raw files are given, on the root rank; all ranks return its
// path or the same error.
StatusOr<std::string> PrepareData(const proto::DataConfig& config, const std::string& run_dir,
                                  Runtime& runtime) {
  const std::string folder = config.prepared().empty() ? run_dir + "/data" : config.prepared();
  if (!HasTrainingText(config)) {
    const std::string unheeded = DescribeIgnoredOptions(PrepareOptionsOf(config, folder));
    if (!unheeded.empty() && runtime.comm.is_root()) {
      LogWarning(absl::StrCat(folder,
                              ": prepared otherwise than this configuration says, and used ",
                              "as it is: ", unheeded));
    }
    return folder;
  }
  Status status = OkStatus();
  if (runtime.comm.is_root()) {
    const StatusOr<PrepareReport> report = PrepareParallelCorpus(PrepareOptionsOf(config, folder));
    status = report.status();
    if (report.ok()) LogInfo(report->Describe());
  }
  DT_RETURN_IF_ERROR(ShareRootStatus(status, "prepare the data", runtime.comm));
  return folder;
}

Status PrepareAttention(const proto::NmtConfig& config, const std::string& run_dir,
                        const Seq2SeqBatch& batch, Runtime& runtime) {
  const AttentionWorkload workload{
      .hidden_size = config.model().hidden_size(),
      .num_heads = config.model().num_heads(),
      .type = ContextOptionsOf(config.trainer(), runtime.comm.rank()).compute_type,
      .dropout = config.model().attention_dropout(),
      .max_length = int64_t{config.data().max_length()} + 1,  // with the end of sentence
      .tokens = std::max(batch.source_tokens, batch.target_tokens),
      .self = true,
      .causal = true,
      .cross = true};
  return PrepareAttentionPlans(AttentionPlanOptionsOf(config.kernels(), run_dir), workload,
                               runtime.device, runtime.comm)
      .status();
}

// Trains in the folder of the recorder.
StatusOr<TrainResult> Train(const proto::NmtConfig& config,
                            const std::vector<NamedFile>& kept_files, RunRecorder& recorder,
                            Runtime& runtime) {
  recorder.set_words({.unit = "target tokens",
                      .advice = "try      echo \"Click the button.\" | dtrain translate"});
  DT_ASSIGN_OR_RETURN(const std::string data, PrepareData(config.data(), recorder.path(), runtime));
  TranslationTaskOptions task_options = TaskOptionsOf(config, data, runtime.device);
  task_options.kept_files = kept_files;
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<TranslationTask> task,
                      TranslationTask::Create(task_options, runtime.comm));
  DT_RETURN_IF_ERROR(CheckDevSet(config, *task, runtime));
  const Seq2SeqOptions& model = task->model().options();
  const Seq2SeqBatch batch =
      MicroBatchOf(config.trainer(), runtime.comm.size(), MeanLengthsOf(task->train_shard()));
  const MemoryPlan memory = PlanRun(MemoryOptionsOf(config), CostsOf(model, batch), runtime);
  // Called when the run and its configuration are gone.
  runtime.memory_remedies = [config, model, batch, memory, device = runtime.device.type] {
    return MemoryRemedies(config, model, batch, memory, device);
  };
  RunTrainingOptions options{
      .trainer = TrainerOptionsOf(config, recorder.path(), task->updates_per_epoch()),
      .context =
          WithRecompute(ContextOptionsOf(config.trainer(), runtime.comm.rank()), memory.recompute),
      .resume = config.run().resume(),
      .memory = memory.Describe(TokensText(batch))};
  options.trainer.planned_activation_bytes = memory.recompute.peak_bytes;
  DT_RETURN_IF_ERROR(internal::ValidateSchedule(config.optimizer(),
                                                options.trainer.learning_rate.total_steps,
                                                options.trainer.max_seconds > 0.0));
  options.prepare = [&]() -> Status {
    DT_RETURN_IF_ERROR(PrepareAttention(config, recorder.path(), batch, runtime));
    DT_RETURN_IF_ERROR(
        PrepareKernels(config.kernels(), recorder.path(), runtime.device, runtime.comm,
                       WarmUpSteps(task->model(), batch, runtime.device, options.context)));
    // The average of the weights begins later, with what they are then.
    return internal::LoadInitialWeights(config, recorder.path(), *task, runtime);
  };
  return RunTraining(*task, options, recorder, runtime);
}

}  // namespace

Status TrainNmt(const proto::NmtConfig& given, Runtime& runtime) {
  proto::NmtConfig config = given;
  std::vector<NamedFile> kept_files;
  if (!config.model().init().empty() || !config.model().pretrained().empty()) {
    DT_RETURN_IF_ERROR(internal::TakeInitialModel(config, kept_files));
    // The shape and the vocabulary are others than those that were checked.
    DT_RETURN_IF_ERROR(ValidateNmtConfig(config));
  }
  // Before anything is written or read by one rank for the others.
  DT_RETURN_IF_ERROR(CheckRanksAgree(
      {{"version", std::string(Version())}, {"configuration", AgreedSettings(config)}},
      runtime.comm));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                      RunRecorder::Open("nmt_train", config.run(), config, runtime));
  return recorder->Run([&] { return Train(config, kept_files, *recorder, runtime); }).status();
}

const TaskProgram& TranslationProgram() {
  const auto export_checkpoint = [](const std::string& checkpoint_path,
                                    const std::string& directory,
                                    const HfExportOptions& options) -> StatusOr<std::string> {
    DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel(checkpoint_path));
    return ExportToHuggingFace(trained, directory, options);
  };
  static const TaskProgram program = MakeTaskProgram<proto::NmtConfig>(
      {.name = "nmt_train",
       .summary = "trains a translation model",
       .example = "nmt_train data.train_source=train.en data.train_target=train.de --max_time=2h "
                  "--run_dir=runs/mine",
       .most_used = {"data.train_source", "data.train_target", "data.dev_source", "data.dev_target",
                     "data.vocab_size", "trainer.max_steps", "trainer.tokens_per_batch",
                     "optimizer.learning_rate", "trainer.precision", "run.run_dir"},
       .commands = {{.name = "", .summary = "", .validate = ValidateNmtConfig, .run = TrainNmt}},
       .workload = TranslationWorkload,
       .checkpoint_files = {"vocab.spm"},
       .export_to_hugging_face = export_checkpoint,
       .exported_classes = "of translation runs MarianMTModel for post-norm models and "
                           "PegasusForConditionalGeneration for pre-norm ones"});
  return program;
}

}  // namespace dtrain
