// trained_classifier.cc - from a checkpoint's files to a model that classifies.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/trained/internal/trained_classifier.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/bert.pb.h"
#include "dtrain/config/bert_options.h"
#include "dtrain/config/internal/classifier_config.h"
#include "dtrain/config/internal/config_values.h"
#include "dtrain/tasks/classification_predictions.h"
#include "dtrain/trained/internal/trained_run.h"

namespace dtrain {
namespace {

void DropTexts(const proto::BertConfig& user, proto::BertConfig& config) {
  const proto::ClassificationDataConfig& data = user.data();
  if (data.dev_size() == 0 && data.test_size() == 0 && data.glue().empty()) return;
  proto::ClassificationDataConfig& own = *config.mutable_data();
  own.clear_train();
  own.clear_dev();
  own.clear_test();
  own.clear_glue();
  own.clear_glue_dir();
}

// Sizes of the data are those of the weights.
absl::StatusOr<BertClassifierOptions> TrainedOptions(const TrainedClassifier& trained) {
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors,
                      trained.checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const words = tensors.Find("bert.embeddings.word_embeddings.weight");
  const NamedTensor* const head = tensors.Find("classifier.weight");
  if (words == nullptr || head == nullptr) {
    return StorageError(trained.checkpoint.path() +
                        "/model.safetensors: holds no BERT classifier; give a checkpoint that "
                        "bert_classify wrote");
  }
  BertClassifierOptions options = ClassifierOptionsOf(*trained.config);
  options.loss = LossOf(trained.label_kind);
  options.label_weights.clear();
  options.num_labels = head->shape[0];
  options.bert.vocab_size = words->shape[0];
  return options;
}

absl::StatusOr<TrainedClassifier> Open(Checkpoint opened, const proto::BertConfig& user) {
  const internal::TrainedProgram<proto::BertConfig> program{
      .name = "bert_classify", .files = {"vocab.txt", "labels.txt"}, .drop_texts = DropTexts};
  DT_ASSIGN_OR_RETURN(auto run, internal::OpenTrainedRun(program, std::move(opened), user));
  auto& [checkpoint, config] = run;
  DT_RETURN_IF_ERROR(internal::CheckSegments(config, checkpoint.path()));
  DT_ASSIGN_OR_RETURN(const std::string labels, checkpoint.ReadText("labels.txt"));
  std::vector<std::string> names = absl::StrSplit(labels, '\n', absl::SkipEmpty());
  DT_ASSIGN_OR_RETURN(const LabelKind kind, internal::LabelKindOf(config.data()));
  return TrainedClassifier{std::move(checkpoint),
                           std::make_shared<const proto::BertConfig>(std::move(config)), kind,
                           std::move(names)};
}

}  // namespace

absl::StatusOr<TrainedClassifier> OpenTrainedClassifier(const proto::BertConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, internal::OpenUsedCheckpoint(user));
  return Open(std::move(checkpoint), user);
}

absl::StatusOr<TrainedClassifier> OpenTrainedClassifier(const std::string& path,
                                                        const std::string& metric) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, internal::OpenBestCheckpoint(path, metric));
  return Open(std::move(checkpoint), {});
}

absl::StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                               const Device& device,
                                                               DType compute_type) {
  DT_ASSIGN_OR_RETURN(const BertClassifierOptions options, TrainedOptions(trained));
  return internal::LoadModel<BertClassifier>(trained.checkpoint, options, device, compute_type);
}

absl::StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                               const ClassificationShardInfo& info,
                                                               const Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(BertClassifierOptions options, TrainedOptions(trained));
  options.loss = LossOf(info.label_kind);
  if (OutputsOf(info) != options.num_labels) {
    return UsageError(absl::StrFormat("%s has %d outputs, the texts have %d labels",
                                      trained.checkpoint.path(), options.num_labels,
                                      OutputsOf(info)));
  }
  return internal::LoadModel<BertClassifier>(
      trained.checkpoint, options, runtime.device,
      internal::DTypeOf(trained.config->trainer().precision()));
}

}  // namespace dtrain
