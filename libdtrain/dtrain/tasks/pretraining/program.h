// program.h - bert_pretrain: pre-trains BERT on running text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_PROGRAM_H_
#define DTRAIN_TASKS_PRETRAINING_PROGRAM_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

const TaskProgram& PretrainingProgram();

// The commands. All ranks call them with a validated configuration (config.h beside this file).

// Trains on data.train, evaluates on data.dev or on what is held out. With several trainer.seeds
// one run after the other, each in a folder of run.run_dir, then mean and spread of their metrics.
Status TrainPretraining(const proto::PretrainConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev, which is the run's own unless given.
Status EvaluatePretrained(const proto::PretrainConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_PROGRAM_H_
