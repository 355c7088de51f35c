// config.h - rules, defaults and options of a run of bert_tag.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONFIG_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/tasks/token_classification/conll_reader.h"
#include "dtrain/tasks/token_classification/head.h"
#include "dtrain/tasks/token_classification/task.h"

namespace dtrain::proto {
class TokenClassificationConfig;
class TokenClassificationDataConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Textproto of the defaults that are not those of the fields.
std::string_view TokenClassificationDefaults();

// Checks the configuration of training. Reads no file. UsageError names the fields.
Status ValidateTokenClassificationConfig(const proto::TokenClassificationConfig& config);
// The same without the rules of the data's files. `dtrain estimate` needs no more.
Status ValidateWithoutData(const proto::TokenClassificationConfig& config);
// Checks what the user sets to evaluate or predict with a trained model.
Status ValidateTokenClassificationUse(const proto::TokenClassificationConfig& config);

ConllOptions ConllOptionsOf(const proto::TokenClassificationDataConfig& data);

// num_tags: those of data.tags, or 9, as many as CoNLL-2003 has.
BertTokenClassifierOptions TokenClassifierOptionsOf(const proto::TokenClassificationConfig& config);

// Left to the caller: the files that travel in checkpoints.
TaggingTaskOptions TaggingTaskOf(const proto::TokenClassificationConfig& config, uint64_t seed,
                                 const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONFIG_H_
