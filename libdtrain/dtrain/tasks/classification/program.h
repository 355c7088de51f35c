// program.h - bert_classify: fine-tunes BERT as a classifier, once or with several seeds.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_PROGRAM_H_
#define DTRAIN_TASKS_CLASSIFICATION_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class ClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& ClassificationProgram();

// The commands. All ranks call them with a validated configuration (config.h beside this file).

// One run, or with several trainer.seeds one after the other, each in seed-N/ of the run directory;
// then the mean and the spread of their metrics, printed and written to seeds.json.
Status TrainClassifier(const proto::ClassificationConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on the dev and test sets of its run or of the command line.
Status EvaluateClassifier(const proto::ClassificationConfig& config, Runtime& runtime);

// The predictions of a trained model for the test sets, or where there are none the dev sets,
// written to predict.output.
Status PredictWithClassifier(const proto::ClassificationConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_PROGRAM_H_
