// trained_squad.cc - from a checkpoint's files to a model that answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/internal/trained_squad.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/internal/tokenization.h"
#include "dtrain/app/internal/trained_run.h"
#include "dtrain/train/checkpoint_directory.h"
#include "dtrain/train/squad_task.h"
#include "dtrain/train/train_state.h"

namespace dtrain::internal {
namespace {

// Files that the user names are instead of the run's, not beside them.
void Overlay(const proto::SquadConfig& user, proto::SquadConfig& config) {
  if (user.data().dev_size() > 0 || user.data().test_size() > 0) {
    config.mutable_data()->clear_train();
    config.mutable_data()->clear_dev();
    config.mutable_data()->clear_test();
  }
  OverlayConfig(user, config);
}

}  // namespace

absl::StatusOr<TrainedSquad> OpenTrainedSquad(const proto::SquadConfig& user) {
  const std::string& path =
      user.predict().checkpoint().empty() ? user.run().run_dir() : user.predict().checkpoint();
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint,
                      OpenCheckpoint(path, user.predict().best() ? BestMetricOf(path) : ""));
  proto::SquadConfig config;
  DT_RETURN_IF_ERROR(
      ReadTrainedConfig(checkpoint, {"vocab.txt", "answers.txt"}, "bert_squad", config));
  DT_RETURN_IF_ERROR(CheckModel(user.model(), config.model(), checkpoint));
  Overlay(user, config);
  if (config.data().max_length() > config.model().max_positions()) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the %d positions of %s",
                                      config.data().max_length(), config.model().max_positions(),
                                      checkpoint.path()));
  }
  if (user.data().has_vocabulary()) {
    DT_RETURN_IF_ERROR(CheckVocabulary(user.data().vocabulary(), checkpoint));
  }
  config.mutable_data()->set_vocabulary(checkpoint.path() + "/vocab.txt");
  DT_ASSIGN_OR_RETURN(
      WordPieceTokenizer tokenizer,
      WordPieceTokenizer::Load(config.data().vocabulary(), TokenizationOf(config.data())));
  DT_ASSIGN_OR_RETURN(const std::string answers, checkpoint.ReadText("answers.txt"));
  return TrainedSquad{.checkpoint = std::move(checkpoint),
                      .config = std::move(config),
                      .tokenizer = std::move(tokenizer),
                      .allow_none = answers == AnswersText(true)};
}

absl::StatusOr<std::unique_ptr<BertQuestionAnswering>> LoadSquadModel(const TrainedSquad& trained,
                                                                      const Device& device,
                                                                      DType compute_type) {
  const Checkpoint& checkpoint = trained.checkpoint;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const words = tensors.Find("bert.embeddings.word_embeddings.weight");
  if (words == nullptr || tensors.Find("qa_outputs.weight") == nullptr) {
    return StorageError(checkpoint.path() +
                        "/model.safetensors: holds no BERT that answers questions; give a "
                        "checkpoint that bert_squad wrote");
  }
  BertOptions options = EncoderOptionsOf(trained.config.model());
  options.vocab_size = words->shape[0];
  auto model = std::make_unique<BertQuestionAnswering>(options);
  const bool narrow = compute_type == DType::kFloat16 && device.type == DeviceType::kCpu;
  model->Allocate(device, narrow ? DType::kFloat32 : compute_type, /*seed=*/1);
  DT_RETURN_IF_ERROR(LoadWeights(checkpoint, model->parameters()));
  return model;
}

}  // namespace dtrain::internal
