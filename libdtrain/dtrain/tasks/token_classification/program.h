// program.h - bert_tag: trains BERT to tag words, for example names of people and places.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_PROGRAM_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class TokenClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& TokenClassificationProgram();

// The commands. All ranks call them with a validated configuration (config.h beside this file).

// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
Status TrainTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, or
// on the run's own where it names neither.
Status EvaluateTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

// Writes a file of words and predicted tags: of data.test, or of data.dev where that is not set.
Status PredictWithTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_PROGRAM_H_
