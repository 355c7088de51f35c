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

// The configuration was validated (tasks/token_classification/config.h). Collective.
// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
Status TrainTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_PROGRAM_H_
