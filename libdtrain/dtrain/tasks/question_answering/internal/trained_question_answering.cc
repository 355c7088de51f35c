// trained_question_answering.cc - from a checkpoint's files to a model that answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/internal/trained_question_answering.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/tasks/question_answering/task.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain::internal {
namespace {

StatusOr<TrainedSquad> Open(Checkpoint opened, const proto::SquadConfig& user) {
  const TrainedProgram<proto::SquadConfig> program{
      .name = "bert_squad", .files = {"vocab.txt", "answers.txt"}, .drop_texts = DropTexts};
  DT_ASSIGN_OR_RETURN(auto run, OpenTrainedRun(program, std::move(opened), user));
  auto& [checkpoint, config, own] = run;
  StatusOr<TextTokenizer> tokenizer =
      TextTokenizer::Load(config.data().vocabulary(), TokenizationOf(config.data()));
  if (!tokenizer.ok()) return AsStorageError(tokenizer.status());
  DT_ASSIGN_OR_RETURN(const std::string answers, checkpoint.ReadText("answers.txt"));
  return TrainedSquad{.checkpoint = std::move(checkpoint),
                      .config = std::move(config),
                      .tokenizer = *std::move(tokenizer),
                      .allow_none = answers == AnswersText(true)};
}

}  // namespace

StatusOr<TrainedSquad> OpenTrainedSquad(const proto::SquadConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenUsedCheckpoint(user));
  return Open(std::move(checkpoint), user);
}

StatusOr<TrainedSquad> OpenTrainedSquad(const std::string& path, const std::string& metric) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBestCheckpoint(path, metric));
  return Open(std::move(checkpoint), {});
}

StatusOr<std::unique_ptr<BertQuestionAnswering>> LoadSquadModel(const TrainedSquad& trained,
                                                                const Device& device,
                                                                DType compute_type) {
  const Checkpoint& checkpoint = trained.checkpoint;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const words = tensors.Find(WordTableName(trained.config.model()));
  const std::string scores =
      absl::StrCat(ToAbsl(FamilyOf(trained.config.model()).question_scores), ".weight");
  if (words == nullptr || tensors.Find(scores) == nullptr) {
    return StorageError(checkpoint.path() +
                        "/model.safetensors: holds no BERT that answers questions; give a "
                        "checkpoint that bert_squad wrote");
  }
  BertOptions options = EncoderOptionsOf(trained.config.model());
  options.vocab_size = words->shape[0];
  return LoadModel<BertQuestionAnswering>(checkpoint, options, device, compute_type);
}

}  // namespace dtrain::internal
