// trained_tagger.cc - from a checkpoint's files to a model that tags.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/internal/trained_tagger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/token_classification/config.h"

namespace dtrain::internal {
namespace {

using proto::TokenClassificationConfig;

StatusOr<TrainedTagger> OpenTagger(Checkpoint opened, const TokenClassificationConfig& user) {
  const TrainedProgram<TokenClassificationConfig> program{
      .name = "bert_tag", .files = {"vocab.txt", "tags.txt"}, .drop_texts = DropTexts};
  DT_ASSIGN_OR_RETURN(auto run, OpenTrainedRun(program, std::move(opened), user));
  auto& [checkpoint, config, own] = run;
  DT_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText("tags.txt"));
  std::vector<std::string> tags = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const std::vector<std::string> given(user.data().tags().begin(), user.data().tags().end());
  if (!given.empty() && given != tags) {
    return UsageError(absl::StrFormat("data.tags: the tags of %s are %s; leave it out",
                                      checkpoint.path(), absl::StrJoin(tags, ", ")));
  }
  return TrainedTagger{std::move(checkpoint), std::move(config), std::move(tags)};
}

}  // namespace

StatusOr<TrainedTagger> OpenTrainedTagger(const TokenClassificationConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenUsedCheckpoint(user));
  return OpenTagger(std::move(checkpoint), user);
}

StatusOr<TrainedTagger> OpenTrainedTagger(const std::string& path) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBestCheckpoint(path, /*metric=*/""));
  return OpenTagger(std::move(checkpoint), {});
}

StatusOr<std::unique_ptr<BertTokenClassifier>> LoadTagger(const TrainedTagger& trained,
                                                          const Device& device,
                                                          DType compute_type) {
  const Checkpoint& checkpoint = trained.checkpoint;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors, checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const words = tensors.Find(WordTableName(trained.config.model()));
  const NamedTensor* const head = tensors.Find("classifier.weight");
  const auto num_tags = static_cast<int64_t>(trained.tags.size());
  if (words == nullptr || head == nullptr || head->shape[0] != num_tags) {
    return StorageError(absl::StrFormat(
        "%s/model.safetensors: holds no BERT for the %d tags of tags.txt; give a checkpoint that "
        "bert_tag wrote",
        checkpoint.path(), num_tags));
  }
  BertTokenClassifierOptions options = TokenClassifierOptionsOf(trained.config);
  options.num_tags = num_tags;
  options.bert.vocab_size = words->shape[0];
  return LoadModel<BertTokenClassifier>(checkpoint, options, device, compute_type);
}

}  // namespace dtrain::internal
