// trained_run.h - from a checkpoint back to the configuration of the run that wrote it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_TRAINED_RUN_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_TRAINED_RUN_H_

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/train/train_state.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain::proto {
class BertModelConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// Turns any error about the contents of a checkpoint into a StorageError.
inline Status AsStorageError(const Status& status) {
  return status.ok() ? status : StorageError(status.message());
}

// OpenCheckpoint() of a run's best by `metric`, "": by the one that the run was steered by.
StatusOr<Checkpoint> OpenBestCheckpoint(const std::string& path, const std::string& metric);

// Fills `config` with the checkpoint's config.textproto. StorageError: that, or another of `files`,
// is not there, so that `program` did not write it; or it cannot be read.
Status ReadTrainedConfig(const Checkpoint& checkpoint, const std::vector<const char*>& files,
                         std::string_view program, google::protobuf::Message& config);

// StorageError: the checkpoint holds .txt files besides `files`, so another program wrote it.
Status RefuseOtherFiles(const Checkpoint& checkpoint, const std::vector<const char*>& files,
                        std::string_view program);

// Sets what `user` sets; its lists replace those of `config`, merging alone would append.
void OverlayConfig(const google::protobuf::Message& user, google::protobuf::Message& config);

// UsageError where `user` sets what makes a model otherwise than `own`, the checkpoint's: most of
// it no tensor's shape would show, and what comes out would be wrong. Where the model began with
// pretrained weights, their files had the word in training too: a warning says so, and KeepModel()
// is for what was overlaid.
Status CheckModel(const proto::BertModelConfig& user, const proto::BertModelConfig& own,
                  const Checkpoint& checkpoint);

// UsageError where `user` sets one of the fields `names` of the section otherwise than `own`, the
// checkpoint's.
Status CheckSameFields(const char* section, const google::protobuf::Message& user,
                       const google::protobuf::Message& own, std::span<const char* const> names,
                       const Checkpoint& checkpoint);

// UsageError where `user`, a section `data`, names another tokenization than `own`, the
// checkpoint's.
Status CheckTokenization(const google::protobuf::Message& user,
                         const google::protobuf::Message& own, const Checkpoint& checkpoint);

// Whether an assignment on the command line empties a list: "data.test=", "data.test=[]".
bool IsEmptyList(std::string_view argument);

// Empties those of the lists ("data.test") that the last word of the command line on them empties,
// and which would be the run's otherwise: in a configuration an emptied list is as one never given.
void EmptyLists(const std::vector<std::string>& arguments, const std::vector<std::string>& lists,
                google::protobuf::Message& config);

// UsageError on all ranks where they have opened unlike checkpoints: copies on hosts that differ,
// or the best one of a run that goes on meanwhile. Collective.
Status CheckSameCheckpoint(const Checkpoint& checkpoint, Communicator& comm);

// Gives `model` what CheckModel() looks at of `own`, the checkpoint's.
void KeepModel(const proto::BertModelConfig& own, proto::BertModelConfig& model);

// The checkpoint that the user names, or one of the run; predict.best says which.
template <typename Config>
StatusOr<Checkpoint> OpenUsedCheckpoint(const Config& user) {
  const std::string& path =
      user.predict().checkpoint().empty() ? user.run().run_dir() : user.predict().checkpoint();
  return OpenCheckpoint(path, user.predict().best() ? BestMetricOf(path) : "");
}

// The folder `data` of the run whose checkpoint that is, RUN/data of RUN/ckpt/last, else the one
// beside the checkpoint. Never inside it, nor among the checkpoints of a run.
std::string DataFolderBeside(const std::string& checkpoint);

// The folder for shards of texts when a trained model is used: the one that the user names, or the
// run's own folder if it exists, or one in the user's run directory, or one next to the checkpoint.
template <typename Config>
std::string CacheOf(const Config& user, const Config& config, const Checkpoint& checkpoint) {
  std::error_code error;
  if (!user.data().cache().empty()) return user.data().cache();
  if (std::filesystem::is_directory(config.data().cache(), error)) return config.data().cache();
  if (!user.run().run_dir().empty()) return user.run().run_dir() + "/data";
  return DataFolderBeside(checkpoint.path());
}

// UsageError unless `path`, which the user gave, holds the checkpoint's vocabulary.
Status CheckVocabulary(const std::string& path, const Checkpoint& checkpoint);

// Gives `config`, which is the run's with the user's changes, the checkpoint's vocabulary.
// UsageError: the user names another, or makes texts longer than the model's positions.
template <typename Config>
Status TakeTrainedVocabulary(const Config& user, const Checkpoint& checkpoint, Config& config) {
  const bool is_changed = user.data().has_max_length() || user.model().has_max_positions();
  if (is_changed && config.data().max_length() > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the %d positions of %s",
                                      config.data().max_length(), config.model().max_positions(),
                                      checkpoint.path()));
  }
  if (user.data().has_vocabulary()) {
    DT_RETURN_IF_ERROR(CheckVocabulary(user.data().vocabulary(), checkpoint));
  }
  config.mutable_data()->set_vocabulary(checkpoint.path() + "/" + VocabularyNameIn(checkpoint));
  return OkStatus();
}

// Takes the run's texts away where the user names others to evaluate or to predict.
template <typename Config>
void DropTexts(const Config& user, Config& config) {
  if (user.data().dev_size() == 0 && user.data().test_size() == 0) return;
  config.mutable_data()->clear_train();
  config.mutable_data()->clear_dev();
  config.mutable_data()->clear_test();
}

// How to recognise the checkpoints of a program that trains a BERT.
template <typename Config>
struct TrainedProgram {
  const char* name;                // "bert_squad"
  std::vector<const char*> files;  // of its checkpoints, besides config.textproto
  // Takes the run's texts away where the user names others instead. Null: lists of files replace
  // those of the same name.
  void (*drop_texts)(const Config& user, Config& config) = nullptr;
  // Refuses checkpoints with other .txt files: each program of BERT has `files` and its own.
  bool has_no_others = false;
};

// A checkpoint and the configuration of the run that wrote it, with the user's changes and the
// checkpoint's vocabulary.
template <typename Config>
struct TrainedRun {
  Checkpoint checkpoint;
  Config config;
  Config own;  // without the user's changes
};

// `user` is what the command line says: what it sets wins over the run's configuration.
// StorageError: the checkpoint is of another program. UsageError: settings that are not those of
// its weights.
template <typename Config>
StatusOr<TrainedRun<Config>> OpenTrainedRun(const TrainedProgram<Config>& program,
                                            Checkpoint checkpoint, const Config& user) {
  if (program.has_no_others) {
    DT_RETURN_IF_ERROR(RefuseOtherFiles(checkpoint, program.files, program.name));
  }
  Config config;
  DT_RETURN_IF_ERROR(ReadTrainedConfig(checkpoint, program.files, program.name, config));
  Config own = config;
  DT_RETURN_IF_ERROR(CheckModel(user.model(), own.model(), checkpoint));
  DT_RETURN_IF_ERROR(CheckTokenization(user.data(), own.data(), checkpoint));
  if (program.drop_texts != nullptr) program.drop_texts(user, config);
  OverlayConfig(user, config);
  KeepModel(own.model(), *config.mutable_model());
  DT_RETURN_IF_ERROR(TakeTrainedVocabulary(user, checkpoint, config));
  return TrainedRun<Config>{std::move(checkpoint), std::move(config), std::move(own)};
}

// A model with the checkpoint's weights. One trained in fp16 computes in fp32 on CPUs.
template <typename Model, typename Options>
StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, const Options& options,
                                           const Device& device, DType compute_type) {
  const bool is_wide = compute_type == DType::kFloat16 && device.type == DeviceType::kCpu;
  auto model = std::make_unique<Model>(options);
  model->Allocate(device, is_wide ? DType::kFloat32 : compute_type, /*seed=*/1);
  DT_RETURN_IF_ERROR(LoadWeights(checkpoint, model->parameters()));
  return model;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_TRAINED_RUN_H_
