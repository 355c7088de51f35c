// config.h - what the data section of a BertConfig means in the library's terms.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/tasks/classification/shard.h"

namespace dtrain::internal {

LabelKind LabelKindOf(proto::ClassificationDataConfig::Labels labels);
// Of the whole section, whichever way it says where texts come from. UsageError: no such GLUE task.
StatusOr<LabelKind> LabelKindOf(const proto::ClassificationDataConfig& data);

// UsageError, naming the data and `weights` (a file or folder): texts and their partners are two
// kinds of segments, and the model knows one.
Status CheckSegments(const proto::BertConfig& config, const std::string& weights);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
