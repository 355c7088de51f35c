// classifier_config.h - what the data section of a BertConfig means in the library's terms.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_INTERNAL_CLASSIFIER_CONFIG_H_
#define DTRAIN_APP_INTERNAL_CLASSIFIER_CONFIG_H_

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/data/classification_shard.h"

namespace dtrain::internal {

LabelKind LabelKindOf(proto::ClassificationDataConfig::Labels labels);
// Of the whole section, whichever way it says where texts come from. UsageError: no such GLUE task.
absl::StatusOr<LabelKind> LabelKindOf(const proto::ClassificationDataConfig& data);

}  // namespace dtrain::internal

#endif  // DTRAIN_APP_INTERNAL_CLASSIFIER_CONFIG_H_
