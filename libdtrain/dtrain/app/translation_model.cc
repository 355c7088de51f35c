// translation_model.cc - from a checkpoint's files to a model that translates.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/translation_model.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/app/config.h"
#include "dtrain/app/internal/trained_run.h"
#include "dtrain/app/nmt_options.h"
#include "dtrain/files/checkpoint_directory.h"
#include "dtrain/nmt.pb.h"

namespace dtrain {
namespace {

constexpr std::string_view kConfigFile = "config.textproto";
constexpr std::string_view kVocabulary = "vocab.spm";

// What is wrong inside a checkpoint is a matter of the checkpoint, whoever found it.
absl::Status AsStorageError(const absl::Status& status) {
  return status.ok() ? status : StorageError(MessageOf(status));
}

absl::Status RequireFile(const Checkpoint& checkpoint, std::string_view name) {
  if (checkpoint.Has(name)) return absl::OkStatus();
  return StorageError(absl::StrFormat(
      "%s: holds no %s, so it is not a checkpoint of a translation run; give one that nmt_train "
      "wrote",
      checkpoint.path(), name));
}

absl::StatusOr<proto::NmtConfig> ReadConfig(const Checkpoint& checkpoint,
                                            const std::string& config_text) {
  proto::NmtConfig config;
  const std::string name = absl::StrFormat("%s/%s", checkpoint.path(), kConfigFile);
  DT_RETURN_IF_ERROR(AsStorageError(MergeConfigText(config_text, name, checkpoint.path(), config)));
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(CheckRules(config.model()), name)));
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(CheckRules(config.trainer()), name)));
  const proto::ModelConfig& model = config.model();
  if (model.hidden_size() % model.num_heads() != 0 || model.hidden_size() % 2 != 0) {
    return StorageError(
        absl::StrFormat("%s: model.hidden_size %d is no even multiple of model.num_heads %d", name,
                        model.hidden_size(), model.num_heads()));
  }
  return config;
}

}  // namespace

absl::StatusOr<TranslationModel> LoadTranslationModel(const std::string& path,
                                                      const LoadModelOptions& options) {
  const std::string metric = options.metric.empty() ? BestMetricOf(path) : options.metric;
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(path, metric));
  DT_RETURN_IF_ERROR(RequireFile(checkpoint, kConfigFile));
  DT_RETURN_IF_ERROR(RequireFile(checkpoint, kVocabulary));
  DT_ASSIGN_OR_RETURN(std::string config_text, checkpoint.ReadText(kConfigFile));
  DT_ASSIGN_OR_RETURN(const proto::NmtConfig config, ReadConfig(checkpoint, config_text));
  absl::StatusOr<BpeModel> tokenizer =
      BpeModel::Load(absl::StrFormat("%s/%s", checkpoint.path(), kVocabulary));
  if (!tokenizer.ok()) return AsStorageError(tokenizer.status());
  Seq2SeqOptions model_options = ModelOptionsOf(config.model());
  model_options.vocab_size = tokenizer->vocab_size();
  model_options.label_smoothing = config.trainer().label_smoothing();
  DT_ASSIGN_OR_RETURN(std::unique_ptr<Seq2SeqTransformer> model,
                      internal::LoadModel<Seq2SeqTransformer>(
                          checkpoint, model_options, options.device, options.compute_type));
  return TranslationModel{.path = checkpoint.path(),
                          .step = checkpoint.step(),
                          .config_text = std::move(config_text),
                          .beam_alpha = config.trainer().beam_alpha(),
                          .compute_type = model->parameters().compute_type(),
                          .tokenizer = *std::move(tokenizer),
                          .model = std::move(model)};
}

}  // namespace dtrain
