// classifier_config.cc - kinds of labels, as the data section names them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/internal/classifier_config.h"

#include "dtrain/data/glue.h"

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

absl::StatusOr<LabelKind> LabelKindOf(const Config& data) {
  if (!data.glue().empty()) {
    DT_ASSIGN_OR_RETURN(const GlueTask task, FindGlueTask(data.glue()));
    return task.label_kind;
  }
  return data.jigsaw() ? LabelKind::kMultiLabel : LabelKindOf(data.labels());
}

}  // namespace dtrain::internal
