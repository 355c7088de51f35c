// config.cc - kinds of labels from the data section.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/internal/config.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/tasks/classification/glue.h"
#include "dtrain/tasks/classification/jigsaw.h"
#include "dtrain/tasks/shared/bert_options.h"

namespace dtrain::internal {

using Config = proto::ClassificationDataConfig;

LabelKind LabelKindOf(Config::Labels labels) {
  switch (labels) {
    case Config::classes:
      return LabelKind::kClass;
    case Config::value:
      return LabelKind::kValue;
    case Config::multi:
      break;
  }
  return LabelKind::kMultiLabel;
}

StatusOr<LabelKind> LabelKindOf(const Config& data) {
  if (!data.glue().empty()) {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(data.glue()));
    return task.label_kind;
  }
  return data.jigsaw() ? LabelKind::kMultiLabel : LabelKindOf(data.labels());
}

StatusOr<int64_t> CountOutputs(const Config& data, int64_t unknown) {
  if (!data.glue().empty()) {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(data.glue()));
    return std::max<int64_t>(static_cast<int64_t>(task.label_names.size()), 1);
  }
  if (data.jigsaw()) {
    return data.jigsaw_auxiliary() ? 1 + static_cast<int64_t>(kJigsawAuxiliaries.size()) : 1;
  }
  if (data.labels() == Config::value) return 1;
  if (data.labels() == Config::multi) return std::max(data.label_size(), 1);
  return data.label_names_size() > 0 ? data.label_names_size() : unknown;
}

Status CheckPooling(const proto::BertModelConfig& model) {
  const EncoderFamily& family = FamilyOf(model);
  if (!model.mean_pooling() || !family.keys.pooling.empty()) return OkStatus();
  return UsageError(absl::StrFormat(
      "model.mean_pooling is for ModernBERT; a %s reads the first token", ToAbsl(family.title)));
}

Status CheckSegments(const proto::ClassificationConfig& config, const std::string& weights) {
  const proto::BertModelConfig& model = config.model();
  if (model.type_vocab_size() != 1 || !FamilyOf(model).pairs_have_types) return OkStatus();
  const Config& data = config.data();
  std::string pairs = data.text_pair().empty() ? "" : "data.text_pair";
  if (!data.glue().empty()) {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(data.glue()));
    DT_ASSIGN_OR_RETURN(const GlueSplit train, GlueSplitOf(task, "train", data.glue_dir()));
    if (!train.schema.text_pair.empty()) pairs = "data.glue=" + data.glue();
  }
  if (pairs.empty()) return OkStatus();
  return UsageError(
      absl::StrFormat("%s supports one kind of segment (type_vocab_size 1), but %s makes texts "
                      "with two; start from a "
                      "BERT that supports two, or leave %s out",
                      weights, pairs, pairs));
}

}  // namespace dtrain::internal
