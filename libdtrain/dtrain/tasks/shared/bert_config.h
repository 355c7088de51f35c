// bert_config.h - checks of a classification run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_BERT_CONFIG_H_
#define DTRAIN_TASKS_SHARED_BERT_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class BertConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The defaults for fine-tuning: AdamW with a warm-up and a linear decay to 0.
std::string_view BertDefaults();

// Checks a configuration for training: CheckRules(), and relations between fields, such as sizes
// that must divide each other, schedules that need an end, and exactly one source of data. Does not
// look at files. Returns UsageError that names the fields.
Status ValidateBertConfig(const proto::BertConfig& config);

// ValidateBertConfig() without the checks of data files, for `dtrain estimate`.
Status ValidateWithoutData(const proto::BertConfig& config);

// Checks the user's settings for evaluating or predicting with a trained model.
Status ValidateBertUse(const proto::BertConfig& config);
// Checks the source and columns of texts, for a run, or for a trained model with the user's
// settings.
Status ValidateTexts(const proto::BertConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_CONFIG_H_
