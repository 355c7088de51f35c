// config.h - converts the data section of a ClassificationConfig to the library's types.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_

#include <cstdint>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/classification.pb.h"
#include "dtrain/tasks/classification/classification_shard.h"

namespace dtrain::internal {

LabelKind LabelKindOf(proto::ClassificationDataConfig::Labels labels);
// The kind of labels of the whole section, whether texts come from files, GLUE or Jigsaw. Returns
// UsageError if there is no such GLUE task.
StatusOr<LabelKind> LabelKindOf(const proto::ClassificationDataConfig& data);

// The number of values a classifier gives for a text, or `unknown` if only the files say it.
// Returns UsageError if there is no such GLUE task.
StatusOr<int64_t> CountOutputs(const proto::ClassificationDataConfig& data, int64_t unknown);

// Returns UsageError, which names the data and `weights` (a file or folder), if the data has pairs
// of texts but the model supports only one kind of segment.
Status CheckSegments(const proto::ClassificationConfig& config, const std::string& weights);

// Refuses model.mean_pooling for families whose class in transformers takes no means.
Status CheckPooling(const proto::BertModelConfig& model);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CONFIG_H_
