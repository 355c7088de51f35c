// config.h - checks of a question answering run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The defaults: those of google-research/bert's run_squad.py, with AdamW's bias correction.
std::string_view SquadDefaults();

// Checks a configuration for training. Returns UsageError that names the fields; does not look at
// files.
Status ValidateSquadConfig(const proto::SquadConfig& config);

// ValidateSquadConfig() without the checks of data files, for `dtrain estimate`.
Status ValidateWithoutData(const proto::SquadConfig& config);

// Checks the settings for evaluating a trained model or answering with it.
Status ValidateSquadUse(const proto::SquadConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_
