// config.h - converts the data section of a BertConfig to the library's types.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/bert.pb.h"
#include "dtrain/tasks/classification/shard.h"

namespace dtrain::internal {

LabelKind LabelKindOf(proto::ClassificationDataConfig::Labels labels);
// The kind of labels of the whole section, whether texts come from files, GLUE or Jigsaw. Returns
// UsageError if there is no such GLUE task.
StatusOr<LabelKind> LabelKindOf(const proto::ClassificationDataConfig& data);

// Returns UsageError, which names the data and `weights` (a file or folder), if the data has pairs
// of texts but the model supports only one kind of segment.
Status CheckSegments(const proto::BertConfig& config, const std::string& weights);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
