// pretrain_use.cc - measures a pre-trained model on texts.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/internal/config_values.h"
#include "dtrain/app/internal/pretrain_data.h"
#include "dtrain/app/internal/trained_run.h"
#include "dtrain/app/pretrain_runs.h"
#include "dtrain/base/file.h"
#include "dtrain/nn/context.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/train/checkpoint_directory.h"
#include "dtrain/train/pretraining_task.h"
#include "dtrain/train/train_state.h"

namespace dtrain {
namespace {

absl::Status Print(const Runtime& runtime, const std::string& text) {
  return runtime.comm.is_root() ? WriteStdout(text) : absl::OkStatus();
}

// The run's configuration with the user's changes, and the checkpoint's vocabulary.
absl::StatusOr<proto::PretrainConfig> ConfigOf(const Checkpoint& checkpoint,
                                               const proto::PretrainConfig& user) {
  proto::PretrainConfig config;
  DT_RETURN_IF_ERROR(
      internal::ReadTrainedConfig(checkpoint, {"vocab.txt"}, "bert_pretrain", config));
  internal::OverlayConfig(user, config);
  if (config.data().max_length() > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the %d positions of %s",
                                      config.data().max_length(), config.model().max_positions(),
                                      checkpoint.path()));
  }
  if (user.data().has_vocabulary()) {
    DT_RETURN_IF_ERROR(internal::CheckVocabulary(user.data().vocabulary(), checkpoint));
  }
  config.mutable_data()->set_vocabulary(checkpoint.path() + "/vocab.txt");
  return config;
}

// Where the shards of the texts go: the run's own, else beside the checkpoint.
std::string CacheOf(const proto::PretrainConfig& user, const proto::PretrainConfig& config,
                    const Checkpoint& checkpoint) {
  if (!user.data().cache().empty()) return user.data().cache();
  std::error_code error;
  const std::string& own = config.data().cache();
  if (!own.empty() && std::filesystem::is_directory(own, error)) return own;
  if (!user.run().run_dir().empty()) return user.run().run_dir() + "/data";
  return std::filesystem::path(checkpoint.path()).parent_path().string() + "/data";
}

absl::StatusOr<std::unique_ptr<BertPretraining>> LoadModel(const Checkpoint& checkpoint,
                                                           const proto::PretrainConfig& config,
                                                           const Device& device) {
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const bias = tensors.Find("cls.predictions.bias");
  const bool has_pairs = tensors.Find("cls.seq_relationship.weight") != nullptr;
  if (bias == nullptr || has_pairs != config.data().next_sentence()) {
    return StorageError(absl::StrFormat(
        "%s/model.safetensors: holds no BERT that was pre-trained with data.next_sentence=%s; give "
        "a checkpoint that bert_pretrain wrote, and leave data.next_sentence as the run had it",
        checkpoint.path(), config.data().next_sentence() ? "true" : "false"));
  }
  BertPretrainingOptions options{.bert = EncoderOptionsOf(config.model()),
                                 .next_sentence = config.data().next_sentence()};
  options.bert.vocab_size = bias->shape[0];
  const DType type = internal::DTypeOf(config.trainer().precision());
  const bool narrow = type == DType::kFloat16 && device.type == DeviceType::kCpu;
  auto model = std::make_unique<BertPretraining>(options);
  model->Allocate(device, narrow ? DType::kFloat32 : type, /*seed=*/1);
  DT_RETURN_IF_ERROR(LoadWeights(checkpoint, model->parameters()));
  return model;
}

}  // namespace

absl::Status EvaluatePretrained(const proto::PretrainConfig& user, Runtime& runtime) {
  const std::string& path =
      user.predict().checkpoint().empty() ? user.run().run_dir() : user.predict().checkpoint();
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                      OpenCheckpoint(path, user.predict().best() ? BestMetricOf(path) : ""));
  DT_ASSIGN_OR_RETURN(const proto::PretrainConfig config, ConfigOf(checkpoint, user));
  DT_ASSIGN_OR_RETURN(
      const internal::PretrainData data,
      internal::PreparePretrainData(config.data(), CacheOf(user, config, checkpoint),
                                    /*with_train=*/false, runtime));
  if (data.dev.empty()) {
    return UsageError("no texts to evaluate on: the run had none, set data.dev");
  }
  DT_RETURN_IF_ERROR(Print(runtime, absl::StrCat("model ", checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(const DocumentShard shard, DocumentShard::Open(data.dev));
  DT_ASSIGN_OR_RETURN(const PretrainingExamples examples,
                      EvaluationExamples(shard, internal::ExamplesOf(config.data(), /*seed=*/1)));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertPretraining> model,
                      LoadModel(checkpoint, config, runtime.device));
  const Tensor narrow = model->parameters().compute_weights();
  Context context(runtime.device, {.compute_type = narrow ? narrow.dtype() : DType::kFloat32});
  const EvaluationResult result = EvaluatePretraining(
      *model, examples, config.trainer().eval_batch_tokens(), runtime.comm, context);
  std::string text = absl::StrFormat("dev (%d examples)", examples.size());
  for (const auto& [name, value] : result.metrics) {
    absl::StrAppendFormat(&text, "  %s %.4f", name, value);
  }
  return Print(runtime, text + "\n");
}

}  // namespace dtrain
