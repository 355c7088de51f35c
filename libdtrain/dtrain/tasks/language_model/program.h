// program.h - lm_train: trains and uses a language model.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_PROGRAM_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class LanguageModelConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& LanguageModelProgram();

// Trains to the end of the run, in the run's directory; with several trainer.seeds one run for each
// of them, and their spread.
Status TrainLanguageModel(const proto::LanguageModelConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_PROGRAM_H_
