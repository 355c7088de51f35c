// bert_shape.cc - sizes from pretrained weights' JSON, a vocabulary's lines and the data's labels.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/bert_shape.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/bert.pb.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/jigsaw.h"
#include "dtrain/tasks/pretraining/internal/data.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"

namespace dtrain::internal {
namespace {

bool IsHere(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error);
}

// What is known where no file says the shape.
Status CheckOwnShape(const proto::BertModelConfig& model, std::vector<std::string>& notes) {
  const std::string& path = model.pretrained();
  const bool has_shape = model.has_num_layers() && model.has_hidden_size() && model.has_ffn_size();
  if (!has_shape && !IsHere(path)) {
    return UsageError(absl::StrFormat(
        "model.pretrained: %s is not on this machine, and decides the shape: copy its config.json "
        "there, or give model.num_layers, model.hidden_size, model.ffn_size and model.num_heads",
        path));
  }
  notes.push_back(
      absl::StrFormat("model.pretrained: no config.json is at %s; the shape is the "
                      "configuration's, %d layers of %d",
                      path, model.num_layers(), model.hidden_size()));
  return OkStatus();
}

// Pieces of a vocabulary, one a line.
StatusOr<int64_t> CountPieces(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const std::string pieces, ReadWholeFile(path));
  const int64_t lines = std::count(pieces.begin(), pieces.end(), '\n');
  return pieces.ends_with('\n') ? lines : lines + 1;
}

// Values a classifier gives for a text.
StatusOr<int64_t> LabelsOf(const proto::ClassificationDataConfig& data, int64_t unknown) {
  using Data = proto::ClassificationDataConfig;
  if (!data.glue().empty()) {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(data.glue()));
    return std::max<int64_t>(static_cast<int64_t>(task.label_names.size()), 1);
  }
  if (data.jigsaw()) {
    return data.jigsaw_auxiliary() ? 1 + static_cast<int64_t>(kJigsawAuxiliaries.size()) : 1;
  }
  if (data.labels() == Data::value) return 1;
  if (data.labels() == Data::multi) return std::max(data.label_size(), 1);
  return data.label_names_size() > 0 ? data.label_names_size() : unknown;
}

}  // namespace

template <typename Config>
Status TakeShape(Config& config, std::vector<std::string>& notes) {
  proto::BertModelConfig& model = *config.mutable_model();
  if (!model.pretrained().empty()) {
    DT_ASSIGN_OR_RETURN(const bool found, TakeShapeBeside(config));
    if (!found) DT_RETURN_IF_ERROR(CheckOwnShape(model, notes));
  }
  if (model.vocab_size() > 0) return OkStatus();
  const std::string& vocabulary = config.data().vocabulary();
  if (IsHere(vocabulary)) {
    DT_ASSIGN_OR_RETURN(const int64_t pieces, CountPieces(vocabulary));
    model.set_vocab_size(static_cast<int32_t>(pieces));
    return OkStatus();
  }
  model.set_vocab_size(static_cast<int32_t>(BertOptions().vocab_size));
  notes.push_back(absl::StrCat(
      "data.vocabulary: ", vocabulary.empty() ? "not set" : absl::StrCat("no file ", vocabulary),
      "; taken for BERT's ", model.vocab_size(), " pieces, model.vocab_size says otherwise"));
  return OkStatus();
}

template Status TakeShape(proto::BertConfig& config, std::vector<std::string>& notes);
template Status TakeShape(proto::PretrainConfig& config, std::vector<std::string>& notes);
template Status TakeShape(proto::SquadConfig& config, std::vector<std::string>& notes);

template <>
StatusOr<BertHead> HeadOf(const proto::BertConfig& config) {
  BertClassifierOptions model = ClassifierOptionsOf(config);
  DT_ASSIGN_OR_RETURN(model.num_labels, LabelsOf(config.data(), model.num_labels));
  return ClassifierHead(model);
}

template <>
StatusOr<BertHead> HeadOf(const proto::PretrainConfig& config) {
  return PretrainingHead(
      {.bert = EncoderOptionsOf(config.model()), .next_sentence = config.data().next_sentence()},
      ExamplesOf(config.data(), /*seed=*/1).masking);
}

template <>
StatusOr<BertHead> HeadOf(const proto::SquadConfig& config) {
  return QuestionAnsweringHead(EncoderOptionsOf(config.model()));
}

}  // namespace dtrain::internal
