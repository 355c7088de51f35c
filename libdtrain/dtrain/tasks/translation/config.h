// config.h - the rules of a translation run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_CONFIG_H_
#define DTRAIN_TASKS_TRANSLATION_CONFIG_H_

#include "dtrain/base/status.h"

namespace dtrain::proto {
class DataConfig;
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain {

// CheckRules() and what it cannot see: sizes that must divide each other, schedules that need an
// end, file lists that belong together. Looks at no file. UsageError names the fields.
Status ValidateNmtConfig(const proto::NmtConfig& config);

// All of it but the corpus, for those who only look at the configuration.
Status ValidateWithoutData(const proto::NmtConfig& config);

// The part of it about the corpus: which files are given, and that they pair up.
Status ValidateDataConfig(const proto::DataConfig& data);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_CONFIG_H_
