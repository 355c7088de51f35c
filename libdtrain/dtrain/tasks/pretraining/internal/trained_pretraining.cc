// trained_pretraining.cc - from a checkpoint's files to a model that guesses hidden tokens.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/internal/trained_pretraining.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain::internal {
namespace {

StatusOr<TrainedPretraining> Open(Checkpoint checkpoint, const proto::PretrainConfig& user) {
  const TrainedProgram<proto::PretrainConfig> program{
      .name = "bert_pretrain", .files = {"vocab.txt"}, .has_no_others = true};
  return OpenTrainedRun(program, std::move(checkpoint), user);
}

}  // namespace

StatusOr<TrainedPretraining> OpenTrainedPretraining(const proto::PretrainConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenUsedCheckpoint(user));
  return Open(std::move(checkpoint), user);
}

StatusOr<TrainedPretraining> OpenTrainedPretraining(const std::string& path,
                                                    const std::string& metric) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBestCheckpoint(path, metric));
  return Open(std::move(checkpoint), {});
}

StatusOr<std::unique_ptr<BertPretraining>> LoadPretrainingModel(const TrainedPretraining& trained,
                                                                const Device& device,
                                                                DType compute_type) {
  const auto& [checkpoint, config, own] = trained;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const bias = tensors.Find(FamilyOf(config.model()).masked_words.bias);
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
  return LoadModel<BertPretraining>(checkpoint, options, device, compute_type);
}

}  // namespace dtrain::internal
