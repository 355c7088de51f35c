// config.h - what the data section of a ClassificationConfig means in the library's terms.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_

#include <cstdint>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/classification.pb.h"
#include "dtrain/tasks/classification/shard.h"

namespace dtrain::internal {

LabelKind LabelKindOf(proto::ClassificationDataConfig::Labels labels);
// The same of a whole section, however it names its texts. UsageError: no such GLUE task.
StatusOr<LabelKind> LabelKindOf(const proto::ClassificationDataConfig& data);

// The number of values a classifier gives for a text, or `unknown` where only the files say it.
// UsageError: no such GLUE task.
StatusOr<int64_t> CountOutputs(const proto::ClassificationDataConfig& data, int64_t unknown);

// UsageError, naming the data and `weights` (a file or folder): texts and their partners are two
// kinds of segments, and the model knows one.
Status CheckSegments(const proto::ClassificationConfig& config, const std::string& weights);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
