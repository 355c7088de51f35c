// initial_model.cc - reads the other run's best checkpoint; the root's weights go to all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/initial_model.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/config.h"
#include "dtrain/distributed/broadcast.h"
#include "dtrain/launch/run_training.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/train/train_state.h"

namespace dtrain::internal {
namespace {

StatusOr<Checkpoint> OpenInitial(const std::string& path) {
  return OpenCheckpoint(path, BestMetricOf(path));
}

// Reads the configuration in a checkpoint of nmt_train.
StatusOr<proto::NmtConfig> ConfigOf(const Checkpoint& checkpoint) {
  for (const char* const file : {"config.textproto", "vocab.spm"}) {
    if (checkpoint.Has(file)) continue;
    return UsageError(
        absl::StrFormat("model.init: %s has no %s; give a run or a checkpoint of nmt_train",
                        checkpoint.path(), file));
  }
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText("config.textproto"));
  proto::NmtConfig config;
  const Status read = MergeConfigText(text, checkpoint.path() + "/config.textproto", "", config);
  return read.ok() ? StatusOr<proto::NmtConfig>(config) : StorageError(read.message());
}

}  // namespace

Status TakeInitialModel(proto::NmtConfig& config) {
  std::string path = config.model().init();
  if (path.empty()) return OkStatus();
  std::error_code error;
  const std::string& run_dir = config.run().run_dir();
  const bool is_gone = !std::filesystem::exists(path, error);
  if (is_gone && !run_dir.empty() && WillResume(config.run().resume(), run_dir)) path = run_dir;
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenInitial(path));
  DT_ASSIGN_OR_RETURN(const proto::NmtConfig initial, ConfigOf(checkpoint));
  proto::ModelConfig model = initial.model();
  model.set_init(config.model().init());
  model.set_dropout(config.model().dropout());
  model.set_attention_dropout(config.model().attention_dropout());
  model.set_activation_dropout(config.model().activation_dropout());
  *config.mutable_model() = model;
  proto::DataConfig& data = *config.mutable_data();
  if (!data.vocabulary().empty()) {
    return UsageError(absl::StrFormat(
        "data.vocabulary is set, but the vocabulary is that of model.init, %s; leave it out",
        config.model().init()));
  }
  if (HasTrainingText(data)) data.set_vocabulary(checkpoint.path() + "/vocab.spm");
  return OkStatus();
}

Status LoadInitialWeights(const proto::NmtConfig& config, const std::string& run_dir,
                          TranslationTask& task, Runtime& runtime) {
  const std::string& path = config.model().init();
  if (path.empty()) return OkStatus();
  const bool will_resume = runtime.comm.is_root() && WillResume(config.run().resume(), run_dir);
  if (runtime.comm.AllReduceValue(will_resume ? 1 : 0, ReduceOp::kMax) != 0) return OkStatus();
  const auto load = [&]() -> Status {
    DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenInitial(path));
    DT_RETURN_IF_ERROR(task.checkpoint().check(checkpoint));
    DT_RETURN_IF_ERROR(LoadWeights(checkpoint, task.parameters()));
    LogInfo(absl::StrCat("the weights are those of ", checkpoint.path()));
    return OkStatus();
  };
  DT_RETURN_IF_ERROR(ShareRootStatus(runtime.comm.is_root() ? load() : OkStatus(),
                                     "load the weights of model.init", runtime.comm));
  BroadcastTensors({{task.parameters().weights()}}, runtime.comm, 0);
  return OkStatus();
}

}  // namespace dtrain::internal
