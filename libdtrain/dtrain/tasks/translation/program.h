// program.h - what nmt_train does.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_PROGRAM_H_
#define DTRAIN_TASKS_TRANSLATION_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/runtime.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Trains a translation model to the end of its run, in the run's directory.
Status TrainNmt(const proto::NmtConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_PROGRAM_H_
