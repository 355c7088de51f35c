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

// The configuration was validated (tasks/question_answering/config.h). Collective.
// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
Status TrainSquad(const proto::SquadConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_PROGRAM_H_
