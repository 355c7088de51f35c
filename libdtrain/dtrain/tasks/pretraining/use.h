// use.h - what bert_pretrain does with a trained model: eval.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_USE_H_
#define DTRAIN_TASKS_PRETRAINING_USE_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The command eval of bert_pretrain. All ranks call it with a validated configuration
// (tasks/pretraining/config.h).

// Prints the metrics of a trained model on data.dev, which is the run's own unless given.
Status EvaluatePretrained(const proto::PretrainConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_USE_H_
