// trained_language_model.cc - from a checkpoint's files to a model that predicts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/internal/trained_language_model.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/config/config.h"
#include "dtrain/tasks/language_model/config.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain::internal {
namespace {

using proto::LanguageModelConfig;

// What the weights are another function with.
constexpr const char* kShape[] = {"num_layers", "hidden_size",        "ffn_size",     "num_heads",
                                  "activation", "layer_norm_epsilon", "max_positions"};

StatusOr<TrainedLanguageModel> Open(Checkpoint checkpoint, const LanguageModelConfig& user) {
  LanguageModelConfig config;
  DT_RETURN_IF_ERROR(ReadTrainedConfig(checkpoint, {"tokens.txt"}, "lm_train", config));
  const std::string name = checkpoint.path() + "/config.textproto";
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(CheckRules(config.model()), name)));
  DT_RETURN_IF_ERROR(AsStorageError(Annotate(ValidateBertModel(config.model()), name)));
  DT_RETURN_IF_ERROR(CheckSameFields("model", user.model(), config.model(), kShape, checkpoint));
  DropTexts(user, config);
  OverlayConfig(user, config);
  if (config.data().max_length() > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the %d positions of %s",
                                      config.data().max_length(), config.model().max_positions(),
                                      checkpoint.path()));
  }
  return TrainedLanguageModel{std::move(checkpoint), std::move(config)};
}

}  // namespace

StatusOr<TrainedLanguageModel> OpenTrainedLanguageModel(const LanguageModelConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenUsedCheckpoint(user));
  return Open(std::move(checkpoint), user);
}

StatusOr<TrainedLanguageModel> OpenTrainedLanguageModel(const std::string& path) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBestCheckpoint(path, /*metric=*/""));
  return Open(std::move(checkpoint), {});
}

StatusOr<std::unique_ptr<Gpt>> LoadLanguageModel(const TrainedLanguageModel& trained,
                                                 const Device& device, DType compute_type) {
  return LoadModel<Gpt>(trained.checkpoint, GptOptionsOf(trained.config.model()), device,
                        compute_type);
}

}  // namespace dtrain::internal
