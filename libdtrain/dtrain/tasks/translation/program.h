// program.h - nmt_train: trains a translation model.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_PROGRAM_H_
#define DTRAIN_TASKS_TRANSLATION_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& TranslationProgram();

// Trains a translation model to the end of its run, in the run's directory.
Status TrainNmt(const proto::NmtConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_PROGRAM_H_
