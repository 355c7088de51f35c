// trained_classifier.cc - from a checkpoint's files to a model that classifies.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/trained_classifier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/classification.pb.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/internal/config.h"
#include "dtrain/tasks/classification/predictions.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

bool HasOtherTexts(const proto::ClassificationDataConfig& user) {
  return user.dev_size() > 0 || user.test_size() > 0 || !user.glue().empty();
}

void DropTexts(const proto::ClassificationConfig& user, proto::ClassificationConfig& config) {
  const proto::ClassificationDataConfig& data = user.data();
  if (!HasOtherTexts(data)) return;
  proto::ClassificationDataConfig& own = *config.mutable_data();
  own.clear_train();
  own.clear_dev();
  own.clear_test();
  own.clear_glue();
  own.clear_glue_dir();
  if (data.glue().empty() && !data.jigsaw()) return;
  // Those have columns of their own.
  own.clear_text();
  own.clear_text_pair();
  own.clear_label();
  own.clear_label_names();
  own.clear_id();
  own.clear_weight();
  own.clear_groups();
  own.clear_header();
  own.clear_hold_out();
}

using Labels = proto::ClassificationDataConfig::Labels;

Labels LabelsOf(LabelKind kind) {
  return kind == LabelKind::kClass   ? proto::ClassificationDataConfig::classes
         : kind == LabelKind::kValue ? proto::ClassificationDataConfig::value
                                     : proto::ClassificationDataConfig::multi;
}

std::string NameOf(LabelKind kind) {
  return proto::ClassificationDataConfig::Labels_Name(LabelsOf(kind));
}

// UsageError where the user names other labels than the checkpoint's, or its columns in another
// order: the outputs would be taken for one another.
Status CheckSameNames(const proto::ClassificationDataConfig& user, LabelKind kind,
                      const std::vector<std::string>& names) {
  const std::vector<std::string> given(user.label_names().begin(), user.label_names().end());
  const std::string all = absl::StrJoin(names, ", ");
  if (!given.empty() && given != names) {
    return UsageError(absl::StrFormat(
        "data.label_names: the checkpoint's labels are %s; leave it out, and where the texts' are "
        "others give data.label=, which predicts without them",
        kind == LabelKind::kValue ? "values" : all));
  }
  for (int i = 0; kind == LabelKind::kMultiLabel && i < user.label_size(); ++i) {
    const auto found = std::ranges::find(names, user.label(i));
    if (found == names.end() || found - names.begin() == i) continue;
    return UsageError(absl::StrFormat(
        "data.label has \"%s\" as its column %d, the checkpoint as its label %d: give the columns "
        "in the order of its labels, %s",
        user.label(i), i + 1, found - names.begin() + 1, all));
  }
  return OkStatus();
}

// UsageError where a model of a GLUE task's pairs would see single texts: which columns others'
// pairs are in, the task does not say.
Status CheckPairs(const proto::ClassificationDataConfig& user,
                  const proto::ClassificationDataConfig& own, const std::string& checkpoint) {
  if (own.glue().empty() || !HasOtherTexts(user) || !user.glue().empty() || user.has_text_pair()) {
    return OkStatus();
  }
  DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(own.glue()));
  DT_ASSIGN_OR_RETURN(const GlueSplit split, GlueSplitOf(task, "train", own.glue_dir()));
  if (split.schema.text_pair.empty()) return OkStatus();
  return UsageError(absl::StrFormat(
      "data.text_pair is not set, and %s was trained on pairs of texts (data.glue=%s); name the "
      "column of the second text, or give data.text_pair= for single texts",
      checkpoint, own.glue()));
}

// The labels are the weights', also where others' texts have taken the place of the run's.
Status TakeLabels(const proto::ClassificationDataConfig& user, LabelKind kind,
                  const std::vector<std::string>& names, bool has_jigsaw_columns,
                  proto::ClassificationDataConfig& config) {
  if (!user.has_labels()) config.set_labels(LabelsOf(kind));
  DT_ASSIGN_OR_RETURN(const LabelKind now, internal::LabelKindOf(config));
  if (now != kind) {
    return UsageError(
        absl::StrFormat("the checkpoint's labels are of the kind %s, those of the texts are %s by "
                        "data.%s; leave it out, or name a checkpoint of that kind",
                        NameOf(kind), NameOf(now),
                        !config.glue().empty() ? "glue"
                        : config.jigsaw()      ? "jigsaw"
                                               : "labels"));
  }
  if (config.jigsaw()) return OkStatus();
  // Of the run, where the user says data.jigsaw=false.
  if (!user.has_weights()) config.clear_weights();
  if (!user.has_jigsaw_auxiliary()) config.clear_jigsaw_auxiliary();
  if (kind == LabelKind::kMultiLabel && has_jigsaw_columns && config.label_size() == 0) {
    for (const std::string& name : names) config.add_label(name);
  }
  return OkStatus();
}

// Sizes of the data are those of the weights.
StatusOr<BertClassifierOptions> TrainedOptions(const TrainedClassifier& trained) {
  DT_ASSIGN_OR_RETURN(const SafetensorsFile tensors,
                      trained.checkpoint.OpenTensors("model.safetensors"));
  const NamedTensor* const words = tensors.Find(WordTableName(trained.config->model()));
  const NamedTensor* const head = tensors.Find(
      absl::StrCat(ToAbsl(FamilyOf(trained.config->model()).classifier.output), ".weight"));
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

StatusOr<TrainedClassifier> Open(Checkpoint opened, const proto::ClassificationConfig& user) {
  const internal::TrainedProgram<proto::ClassificationConfig> program{
      .name = "bert_classify", .files = {"vocab.txt", "labels.txt"}, .drop_texts = DropTexts};
  DT_ASSIGN_OR_RETURN(auto run, internal::OpenTrainedRun(program, std::move(opened), user));
  auto& [checkpoint, config, own] = run;
  DT_ASSIGN_OR_RETURN(const LabelKind kind, internal::LabelKindOf(own.data()));
  DT_RETURN_IF_ERROR(internal::CheckSegments(config, checkpoint.path()));
  DT_ASSIGN_OR_RETURN(const std::string labels, checkpoint.ReadText("labels.txt"));
  std::vector<std::string> names = absl::StrSplit(labels, '\n', absl::SkipEmpty());
  DT_RETURN_IF_ERROR(CheckSameNames(user.data(), kind, names));
  DT_RETURN_IF_ERROR(CheckPairs(user.data(), own.data(), checkpoint.path()));
  DT_RETURN_IF_ERROR(
      TakeLabels(user.data(), kind, names, own.data().jigsaw(), *config.mutable_data()));
  DT_RETURN_IF_ERROR(ValidateTexts(config));
  return TrainedClassifier{std::move(checkpoint),
                           std::make_shared<const proto::ClassificationConfig>(std::move(config)),
                           kind, std::move(names)};
}

}  // namespace

StatusOr<TrainedClassifier> OpenTrainedClassifier(const proto::ClassificationConfig& user) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, internal::OpenUsedCheckpoint(user));
  return Open(std::move(checkpoint), user);
}

StatusOr<TrainedClassifier> OpenTrainedClassifier(const std::string& path,
                                                  const std::string& metric) {
  DT_ASSIGN_OR_RETURN(Checkpoint checkpoint, internal::OpenBestCheckpoint(path, metric));
  return Open(std::move(checkpoint), {});
}

StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                         const Device& device, DType compute_type) {
  DT_ASSIGN_OR_RETURN(const BertClassifierOptions options, TrainedOptions(trained));
  return internal::LoadModel<BertClassifier>(trained.checkpoint, options, device, compute_type);
}

StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                         const ClassificationShardInfo& info,
                                                         const Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(const BertClassifierOptions options, TrainedOptions(trained));
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
