// initial_model.cc - reads the weights that a run begins with; all ranks get those of the root.
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
#include "dtrain/tasks/shared/internal/low_rank.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/internal/marian_folder.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/train/train_state.h"

namespace dtrain::internal {
namespace {

// What model.init or model.pretrained names; "" without them.
std::string InitialPath(const proto::NmtConfig& config) {
  const std::string& published = config.model().pretrained();
  return published.empty() ? config.model().init() : published;
}

Status LoadPublished(const std::string& folder, TranslationTask& task) {
  DT_ASSIGN_OR_RETURN(const TranslationTokenizer tokenizer, TranslationTokenizer::Load(folder));
  if (tokenizer.Hash() != task.tokenizer().Hash()) {
    return StorageError(absl::StrFormat(
        "the data was prepared with another vocabulary than that of %s; prepare it with "
        "data.vocabulary=%s",
        folder, TokenizerPathIn(folder)));
  }
  DT_ASSIGN_OR_RETURN(const PretrainedReport report, LoadMarianWeights(folder, task.parameters()));
  LogInfo(report.Describe());
  return OkStatus();
}

StatusOr<Checkpoint> OpenInitial(const std::string& path) {
  return OpenCheckpoint(path, BestMetricOf(path));
}

// Reads the configuration in a checkpoint of nmt_train.
StatusOr<proto::NmtConfig> ConfigOf(const Checkpoint& checkpoint) {
  for (const char* const file : {"config.textproto", "vocab.spm"}) {
    if (HasCheckpointFile(checkpoint, file)) continue;
    return UsageError(
        absl::StrFormat("model.init: %s has no %s; give a run or a checkpoint of nmt_train",
                        checkpoint.path(), file));
  }
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText("config.textproto"));
  proto::NmtConfig config;
  const Status read = MergeConfigText(text, checkpoint.path() + "/config.textproto", "", config);
  return read.ok() ? StatusOr<proto::NmtConfig>(config) : StorageError(read.message());
}

// Where the weights that a run begins with are gone, and the run goes on from its own.
bool IsReplacedByOwn(const std::string& path, const proto::RunConfig& run) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && !run.run_dir().empty() &&
         WillResume(run.resume(), run.run_dir());
}

// A published model's rules of the search go on with its weights, unless the user sets others.
void KeepSearch(const proto::TrainerConfig& initial, proto::TrainerConfig& trainer) {
  if (initial.beam_rules() == proto::TrainerConfig::wu || trainer.has_beam_rules()) return;
  trainer.set_beam_rules(initial.beam_rules());
  if (!trainer.has_beam_alpha()) trainer.set_beam_alpha(initial.beam_alpha());
  if (!trainer.has_beam_early_stopping()) {
    trainer.set_beam_early_stopping(initial.beam_early_stopping());
  }
  if (!trainer.has_beam_renormalize()) trainer.set_beam_renormalize(initial.beam_renormalize());
}

// Gives `config` the model of a checkpoint; returns its folder, where the tokenizer is, too.
StatusOr<std::string> TakeModelOf(const std::string& path, bool is_own, proto::NmtConfig& config) {
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenInitial(path));
  DT_ASSIGN_OR_RETURN(const proto::NmtConfig initial, ConfigOf(checkpoint));
  if (initial.model().lora().rank() > 0 && !is_own) {
    return UsageError(absl::StrFormat(
        "model.init: %s has adapters that are not added to its weights; export it by dtrain "
        "export-hf, and give that folder as model.pretrained",
        path));
  }
  proto::ModelConfig model = initial.model();
  model.set_init(config.model().init());
  model.set_pretrained(config.model().pretrained());
  *model.mutable_lora() = config.model().lora();
  model.set_dropout(config.model().dropout());
  model.set_attention_dropout(config.model().attention_dropout());
  model.set_activation_dropout(config.model().activation_dropout());
  *config.mutable_model() = model;
  KeepSearch(initial.trainer(), *config.mutable_trainer());
  return checkpoint.path();
}

}  // namespace

Status TakeInitialModel(proto::NmtConfig& config, std::vector<NamedFile>& kept_files) {
  const bool is_published = !config.model().pretrained().empty();
  const std::string given = InitialPath(config);
  if (given.empty()) return OkStatus();
  const char* const key = is_published ? "model.pretrained" : "model.init";
  if (is_published && !config.model().init().empty()) {
    return UsageError("model.init and model.pretrained both name weights to begin with; give one");
  }
  std::string folder = given;
  const bool is_own = IsReplacedByOwn(given, config.run());
  if (is_own || !is_published) {
    DT_ASSIGN_OR_RETURN(folder,
                        TakeModelOf(is_own ? config.run().run_dir() : given, is_own, config));
  } else {
    DT_RETURN_IF_ERROR(ReadMarianFolder(folder, config));
  }
  DT_RETURN_IF_ERROR(CheckTargets(ModelOptionsOf(config.model())));
  proto::DataConfig& data = *config.mutable_data();
  if (!data.vocabulary().empty()) {
    return UsageError(absl::StrFormat(
        "data.vocabulary is set, but the vocabulary is that of %s, %s; leave it out", key, given));
  }
  if (HasTrainingText(data)) data.set_vocabulary(TokenizerPathIn(folder));
  DT_ASSIGN_OR_RETURN(kept_files, ReadKeptFiles(folder));
  return OkStatus();
}

Status LoadInitialWeights(const proto::NmtConfig& config, const std::string& run_dir,
                          TranslationTask& task, Runtime& runtime) {
  const std::string path = InitialPath(config);
  if (path.empty()) return OkStatus();
  const bool will_resume = runtime.comm.is_root() && WillResume(config.run().resume(), run_dir);
  if (runtime.comm.AllReduceValue(will_resume ? 1 : 0, ReduceOp::kMax) != 0) return OkStatus();
  const auto load = [&]() -> Status {
    if (!config.model().pretrained().empty()) return LoadPublished(path, task);
    DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenInitial(path));
    DT_RETURN_IF_ERROR(task.checkpoint().check(checkpoint));
    DT_RETURN_IF_ERROR(LoadWeights(checkpoint, task.parameters(), /*adapters_may_be_new=*/true));
    LogInfo(absl::StrCat("the weights are those of ", checkpoint.path()));
    return OkStatus();
  };
  DT_RETURN_IF_ERROR(ShareRootStatus(runtime.comm.is_root() ? load() : OkStatus(),
                                     absl::StrCat("load the weights of ", path), runtime.comm));
  BroadcastParameters(task.parameters(), runtime.comm);
  return OkStatus();
}

}  // namespace dtrain::internal
