// config.cc - checks the fields of a ClassificationConfig and turns them into options.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/config.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/tasks/classification/internal/config.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"

namespace dtrain {
namespace {

Status ValidateLabels(const proto::ClassificationDataConfig& data) {
  const bool several = data.labels() == proto::ClassificationDataConfig::multi;
  if (!several && data.label_size() > 1) {
    return UsageError(absl::StrFormat("data.label lists %d columns, which needs data.labels=multi",
                                      data.label_size()));
  }
  if (data.weights() != proto::ClassificationDataConfig::none && !data.jigsaw()) {
    return UsageError("data.weights is computed from Jigsaw's columns: set data.jigsaw=true");
  }
  if (data.jigsaw_auxiliary() && !data.jigsaw()) {
    return UsageError("data.jigsaw_auxiliary needs Jigsaw's columns: set data.jigsaw=true");
  }
  return OkStatus();
}

Status ValidateGlueFolder(const proto::ClassificationDataConfig& data) {
  if (data.glue().empty() || !data.glue_dir().empty()) return OkStatus();
  return UsageError("data.glue needs data.glue_dir, the folder with the task's train.tsv");
}

// Refuses other settings that a task already determines. Only the user's own settings are checked,
// because a trained model's configuration may have settings for another kind of texts.
Status ValidateTask(const proto::ClassificationDataConfig& data) {
  const bool is_glue = !data.glue().empty();
  if (!is_glue && !data.jigsaw()) return OkStatus();
  // A printed configuration includes default values, which are not refused.
  const proto::ClassificationDataConfig untouched;
  DT_ASSIGN_OR_RETURN(const LabelKind kind, internal::LabelKindOf(data));
  const bool has_other_labels =
      data.labels() != untouched.labels() && internal::LabelKindOf(data.labels()) != kind;
  // GLUE has dev sets already.
  const bool holds_out = data.hold_out() > 0.0f && data.hold_out() != untouched.hold_out();
  const std::pair<const char*, bool> keys[] = {{"data.label_names", data.label_names_size() > 0},
                                               {"data.labels", has_other_labels},
                                               {"data.header", !data.header()},
                                               {"data.hold_out", is_glue && holds_out}};
  for (const auto& [key, is_set] : keys) {
    if (!is_set) continue;
    return UsageError(
        absl::StrFormat("%s is set, but %s determines the files and labels; leave it out", key,
                        data.jigsaw() ? "data.jigsaw" : "data.glue"));
  }
  return OkStatus();
}

Status ValidateSource(const proto::ClassificationDataConfig& data) {
  if (!data.glue().empty() &&
      (data.jigsaw() || data.train_size() > 0 || data.dev_size() > 0 || data.test_size() > 0)) {
    return UsageError(
        "set data.glue and data.glue_dir, or data.train, data.dev and data.test, not both");
  }
  // The task determines the columns. A printed configuration includes default values.
  const proto::ClassificationDataConfig untouched;
  const std::pair<const char*, bool> columns[] = {
      {"data.text", data.text() != untouched.text()}, {"data.text_pair", !data.text_pair().empty()},
      {"data.label", data.label_size() > 0},          {"data.id", !data.id().empty()},
      {"data.weight", !data.weight().empty()},        {"data.groups", data.groups_size() > 0}};
  for (const auto& [key, is_set] : columns) {
    if (!is_set || (data.glue().empty() && !data.jigsaw())) continue;
    return UsageError(absl::StrFormat("%s is set, but %s determines the columns; leave it out", key,
                                      data.jigsaw() ? "data.jigsaw" : "data.glue"));
  }
  if (data.groups_size() > 0 && data.labels() != proto::ClassificationDataConfig::multi) {
    return UsageError(
        "data.groups is for subgroup metrics, which need data.labels=multi: set that, or "
        "leave data.groups out");
  }
  DT_RETURN_IF_ERROR(ValidateGlueFolder(data));
  return ValidateLabels(data);
}

}  // namespace

std::string_view ClassificationDefaults() { return FineTuningDefaults(); }

Status ValidateWithoutData(const proto::ClassificationConfig& config) {
  return internal::ValidateBertSections(config);
}

Status ValidateClassificationConfig(const proto::ClassificationConfig& config) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  DT_RETURN_IF_ERROR(internal::ValidateVocabulary(config));
  DT_RETURN_IF_ERROR(ValidateTexts(config));
  DT_RETURN_IF_ERROR(ValidateTask(config.data()));
  if (config.data().glue().empty() && config.data().train_size() == 0) {
    return UsageError("no training data is given: set data.train, or data.glue and data.glue_dir");
  }
  return OkStatus();
}

Status ValidateClassificationUse(const proto::ClassificationConfig& config) {
  DT_RETURN_IF_ERROR(internal::ValidateUse(config));
  DT_RETURN_IF_ERROR(ValidateGlueFolder(config.data()));
  return ValidateTask(config.data());
}

Status ValidateTexts(const proto::ClassificationConfig& config) {
  return ValidateSource(config.data());
}

BertClassifierOptions ClassifierOptionsOf(const proto::ClassificationConfig& config) {
  const auto& weights = config.trainer().label_weights();
  return {.bert = EncoderOptionsOf(config.model()),
          .mean_pooling = config.model().mean_pooling(),
          .classifier_dropout = config.model().classifier_dropout(),
          .label_weights = {weights.begin(), weights.end()}};
}

ClassificationTaskOptions ClassificationTaskOf(const proto::ClassificationConfig& config,
                                               uint64_t seed, const Device& device) {
  const proto::BertTrainerConfig& trainer = config.trainer();
  return {.train = {},
          .model = ClassifierOptionsOf(config),
          .batch = BertBatchOf(trainer, seed, config.data().shuffle()),
          .micro_batch_tokens = trainer.micro_batch_tokens(),
          .device = device,
          .compute_type = internal::DTypeOf(trainer.precision()),
          .seed = seed,
          .eval_batch_tokens = trainer.eval_batch_tokens(),
          .balance_labels = trainer.balance_labels()};
}

}  // namespace dtrain
