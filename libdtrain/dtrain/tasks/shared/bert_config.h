// bert_config.h - the rules of a classification run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_BERT_CONFIG_H_
#define DTRAIN_TASKS_SHARED_BERT_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class BertConfig;
}  // namespace dtrain::proto

namespace dtrain {

// What fine-tuning takes by default: AdamW with a warm-up and a linear decay to 0.
std::string_view BertDefaults();

// Of training: CheckRules() and what it cannot see: sizes that must divide each other, schedules
// that need an end, data that is given in one way. Looks at no file. UsageError names the fields.
Status ValidateBertConfig(const proto::BertConfig& config);

// The same without what only concerns the data's files: what a config for `dtrain estimate` needs.
Status ValidateWithoutData(const proto::BertConfig& config);

// Of evaluating or predicting with a model that is there already: what the user says of it.
Status ValidateBertUse(const proto::BertConfig& config);
// Where texts come from and which columns they have, of a run or of a trained model with what the
// user says.
Status ValidateTexts(const proto::BertConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_CONFIG_H_
