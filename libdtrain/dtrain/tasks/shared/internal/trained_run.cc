// trained_run.cc - reads the configuration that travels in checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/trained_run.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/bert.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/runs/internal/checkpoint_files.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"

namespace dtrain::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kConfig[] = "config.textproto";
// Of BertModelConfig: what the weights are another function with.
constexpr const char* kShape[] = {
    "num_layers",         "hidden_size",     "ffn_size",        "num_heads",   "activation",
    "layer_norm_epsilon", "max_positions",   "type_vocab_size", "vocab_size",  "family",
    "embedding_size",     "position_offset", "local_attention", "whole_every", "local_theta",
    "whole_theta",        "mean_pooling"};
// Of a section `data`: what the weights have learned other pieces with.
constexpr const char* kTokenization[] = {"lower_case", "accents", "tokenizer"};

void ClearListsOf(const Message& top, Message& base) {
  std::vector<const FieldDescriptor*> fields;
  top.GetReflection()->ListFields(top, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) {
      base.GetReflection()->ClearField(&base, field);
    } else if (field->message_type() != nullptr) {
      ClearListsOf(top.GetReflection()->GetMessage(top, field),
                   *base.GetReflection()->MutableMessage(&base, field));
    }
  }
}

Status RequireFile(const Checkpoint& checkpoint, const char* name, std::string_view program) {
  if (HasCheckpointFile(checkpoint, name)) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s: holds no %s, so it is not a checkpoint of a run of %s; give one that %s wrote",
      checkpoint.path(), name, ToAbsl(program), ToAbsl(program)));
}

// The fields `names` that `user` sets to something else than `own` has.
std::vector<const char*> SetOtherwise(const Message& user, const Message& own,
                                      std::span<const char* const> names) {
  std::vector<const char*> others;
  for (const char* const name : names) {
    const FieldDescriptor* const field = user.GetDescriptor()->FindFieldByName(name);
    const bool is_set = user.GetReflection()->HasField(user, field);
    if (is_set && DefaultText(user, name) != DefaultText(own, name)) others.push_back(name);
  }
  return others;
}

Status RefuseSetting(const char* section, const char* name, const Message& own,
                     const Checkpoint& checkpoint) {
  return UsageError(absl::StrFormat("%s.%s is the checkpoint's, %s in %s; leave it out", section,
                                    name, DefaultText(own, name), checkpoint.path()));
}

}  // namespace

StatusOr<Checkpoint> OpenBestCheckpoint(const std::string& path, const std::string& metric) {
  std::error_code error;
  if (!metric.empty() && std::filesystem::exists(path + "/MANIFEST", error)) {
    return UsageError(
        absl::StrFormat("--metric=%s chooses among a run's checkpoints; %s is one", metric, path));
  }
  return OpenCheckpoint(path, metric.empty() ? BestMetricOf(path) : metric);
}

Status ReadTrainedConfig(const Checkpoint& checkpoint, const std::vector<const char*>& files,
                         std::string_view program, Message& config) {
  DT_RETURN_IF_ERROR(RequireFile(checkpoint, kConfig, program));
  for (const char* const name : files) DT_RETURN_IF_ERROR(RequireFile(checkpoint, name, program));
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(kConfig));
  const std::string path = checkpoint.path() + "/" + kConfig;
  return AsStorageError(MergeConfigText(text, path, checkpoint.path(), config));
}

Status RefuseOtherFiles(const Checkpoint& checkpoint, const std::vector<const char*>& files,
                        std::string_view program) {
  for (const std::string& name : checkpoint.FileNames()) {
    const bool is_trainers = name == kTrainingDataFile || name == kModelTextFile;
    const bool is_own = std::find(files.begin(), files.end(), name) != files.end();
    if (!name.ends_with(".txt") || is_trainers || is_own) continue;
    return UsageError(absl::StrFormat(
        "%s: holds %s, so it is one of another program; give a checkpoint that %s wrote",
        checkpoint.path(), name, ToAbsl(program)));
  }
  return OkStatus();
}

void OverlayConfig(const Message& user, Message& config) {
  ClearListsOf(user, config);
  config.MergeFrom(user);
}

Status CheckModel(const proto::BertModelConfig& user, const proto::BertModelConfig& own,
                  const Checkpoint& checkpoint) {
  for (const char* const name : SetOtherwise(user, own, kShape)) {
    if (own.pretrained().empty()) return RefuseSetting("model", name, own, checkpoint);
    LogWarning(absl::StrFormat(
        "%s: model.%s is %s by the pretrained weights, as in training; the configuration's %s "
        "does not count",
        checkpoint.path(), name, DefaultText(own, name), DefaultText(user, name)));
  }
  return OkStatus();
}

Status CheckSameFields(const char* section, const Message& user, const Message& own,
                       std::span<const char* const> names, const Checkpoint& checkpoint) {
  const std::vector<const char*> others = SetOtherwise(user, own, names);
  return others.empty() ? OkStatus() : RefuseSetting(section, others.front(), own, checkpoint);
}

Status CheckTokenization(const Message& user, const Message& own, const Checkpoint& checkpoint) {
  return CheckSameFields("data", user, own, kTokenization, checkpoint);
}

void EmptyLists(const std::vector<std::string>& arguments, const std::vector<std::string>& lists,
                Message& config) {
  for (const std::string& list : lists) {
    const auto last =
        std::find_if(arguments.rbegin(), arguments.rend(),
                     [&](const std::string& argument) { return argument.starts_with(list + "="); });
    if (last == arguments.rend() || !IsEmptyList(*last)) continue;
    const Status emptied = ApplyOverride(list + "=", config);
    DT_CHECK(emptied.ok()) << list << " is a list";
  }
}

bool IsEmptyList(std::string_view argument) {
  return argument.ends_with("=") || argument.ends_with("=[]");
}

Status CheckSameCheckpoint(const Checkpoint& checkpoint, Communicator& comm) {
  DT_ASSIGN_OR_RETURN(const std::string manifest, ReadWholeFile(checkpoint.path() + "/MANIFEST"));
  return CheckRanksAgree({{"checkpoint", absl::StrFormat("step %d\nmanifest crc32c %08x\n",
                                                         checkpoint.step(), Crc32c(manifest))}},
                         comm);
}

void KeepModel(const proto::BertModelConfig& own, proto::BertModelConfig& model) {
  proto::BertModelConfig others = model;
  for (const char* const name : kShape) {
    others.GetReflection()->ClearField(&others, others.GetDescriptor()->FindFieldByName(name));
  }
  model = own;
  model.MergeFrom(others);
}

std::string DataFolderBeside(const std::string& checkpoint) {
  // "." names the folder that is open, so that RUN/ckpt/last is in RUN/ckpt with a slash or not.
  const std::filesystem::path inside = std::filesystem::absolute(checkpoint) / ".";
  const std::filesystem::path around = inside.lexically_normal().parent_path().parent_path();
  return (around.filename() == "ckpt" ? around.parent_path() : around) / "data";
}

Status CheckVocabulary(const std::string& path, const Checkpoint& checkpoint) {
  const std::string own = checkpoint.path() + "/" + VocabularyNameIn(checkpoint);
  DT_ASSIGN_OR_RETURN(const bool is_own, IsSameVocabulary(path, own));
  if (is_own) return OkStatus();
  return UsageError(absl::StrFormat(
      "data.vocabulary: %s is not the vocabulary that %s was trained with; leave it out", path,
      checkpoint.path()));
}

}  // namespace dtrain::internal
