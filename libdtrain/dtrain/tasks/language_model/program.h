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

// The commands. All ranks call them with a validated configuration (config.h beside this file).

// Trains to the end of the run, in the run's directory; with several trainer.seeds one run for each
// of them, and their spread.
Status TrainLanguageModel(const proto::LanguageModelConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, or
// on the run's own where it names neither: its dev set, or what it held out of data.train.
Status EvaluateLanguageModel(const proto::LanguageModelConfig& config, Runtime& runtime);

// Continues the lines of generate.prompts, and writes each with what follows it to the standard
// output or to predict.output, an empty line behind it. UsageError where there are several ranks.
Status GenerateTexts(const proto::LanguageModelConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_PROGRAM_H_
