// config.h - checks of a translation run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_CONFIG_H_
#define DTRAIN_TASKS_TRANSLATION_CONFIG_H_

#include "dtrain/base/status.h"

namespace dtrain::proto {
class DataConfig;
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Checks a configuration for training: CheckRules(), and relations between fields, such as sizes
// that must divide each other, schedules that need an end, and lists of files that belong together.
// Does not look at files. Returns UsageError that names the fields.
Status ValidateNmtConfig(const proto::NmtConfig& config);

// ValidateNmtConfig() without the corpus, for commands that only use the configuration.
Status ValidateWithoutData(const proto::NmtConfig& config);

// True if training text is given in any format. A prepared folder alone is not.
bool HasTrainingText(const proto::DataConfig& data);

// Checks the corpus: which files are given, and that they pair up.
Status ValidateDataConfig(const proto::DataConfig& data);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_CONFIG_H_
