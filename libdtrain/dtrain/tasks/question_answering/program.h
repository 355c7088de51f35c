// program.h - bert_squad: trains BERT to answer questions.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_PROGRAM_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& QuestionAnsweringProgram();

// The commands. All ranks call them with a validated configuration (config.h beside this file).

// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
Status TrainSquad(const proto::SquadConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, all
// with answers, or on the run's own data.dev where it names neither.
Status EvaluateSquadModel(const proto::SquadConfig& config, Runtime& runtime);

// Writes predictions.json, nbest_predictions.json and, where questions may have no answer,
// null_odds.json of data.test, or of data.dev where that is not set; where neither is, of the run's
// own.
Status PredictSquad(const proto::SquadConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_PROGRAM_H_
