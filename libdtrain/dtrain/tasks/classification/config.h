// config.h - rules, defaults and options of a classification run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_CONFIG_H_
#define DTRAIN_TASKS_CLASSIFICATION_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/classification/task.h"

namespace dtrain::proto {
class ClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Textproto of the defaults that are not those of the fields.
std::string_view ClassificationDefaults();

// Checks the configuration of training: the rules of each field, sizes that must divide each other,
// schedules that need an end, data that is given in one way. Reads no file. UsageError names the
// fields.
Status ValidateClassificationConfig(const proto::ClassificationConfig& config);

// The same without the rules of the data's files. `dtrain estimate` needs no more.
Status ValidateWithoutData(const proto::ClassificationConfig& config);

// Checks what the user sets to evaluate or predict with a trained model.
Status ValidateClassificationUse(const proto::ClassificationConfig& config);
// Checks where texts come from and which columns they have, in a run's configuration or in that of
// a trained model with the user's changes.
Status ValidateTexts(const proto::ClassificationConfig& config);

// The data sets loss and num_labels.
BertClassifierOptions ClassifierOptionsOf(const proto::ClassificationConfig& config);

// Left to the caller: the shards and the files that travel in checkpoints.
ClassificationTaskOptions ClassificationTaskOf(const proto::ClassificationConfig& config,
                                               uint64_t seed, const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_CONFIG_H_
