// config.h - the rules of a question answering run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_

#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

// As run_squad.py of google-research/bert trains, with AdamW's bias correction.
std::string_view SquadDefaults();

// Of training. UsageError names the fields; looks at no file.
Status ValidateSquadConfig(const proto::SquadConfig& config);

// The same without what only concerns the data's files: what a config for `dtrain estimate` needs.
Status ValidateWithoutData(const proto::SquadConfig& config);

// Of evaluating or answering with a model that is there already.
Status ValidateSquadUse(const proto::SquadConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_CONFIG_H_
