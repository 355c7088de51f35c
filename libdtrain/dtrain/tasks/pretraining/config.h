// config.h - the rules of a pre-training run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_CONFIG_H_
#define DTRAIN_TASKS_PRETRAINING_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

// As BERT was trained (Devlin et al. 2019, appendix A.2), with AdamW's bias correction.
std::string_view PretrainDefaults();

// Of training. UsageError names the fields; looks at no file.
Status ValidatePretrainConfig(const proto::PretrainConfig& config);

// The same without what only concerns the data's files: what a config for `dtrain estimate` needs.
Status ValidateWithoutData(const proto::PretrainConfig& config);

// Of evaluating a model that is there already.
Status ValidatePretrainUse(const proto::PretrainConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_CONFIG_H_
