// trained_squad.cc - from a checkpoint's files to a model that answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/internal/trained_squad.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/internal/tokenization.h"
#include "dtrain/app/internal/trained_run.h"
#include "dtrain/tasks/squad_task.h"

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
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenUsedCheckpoint(user));
  proto::SquadConfig config;
  DT_RETURN_IF_ERROR(
      ReadTrainedConfig(checkpoint, {"vocab.txt", "answers.txt"}, "bert_squad", config));
  const proto::BertModelConfig own = config.model();
  DT_RETURN_IF_ERROR(CheckModel(user.model(), own, checkpoint));
  Overlay(user, config);
  KeepModel(own, *config.mutable_model());
  DT_RETURN_IF_ERROR(TakeTrainedVocabulary(user, checkpoint, config));
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
  return LoadModel<BertQuestionAnswering>(checkpoint, options, device, compute_type);
}

}  // namespace dtrain::internal
