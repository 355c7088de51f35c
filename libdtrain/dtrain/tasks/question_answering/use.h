// use.h - what bert_squad does with a trained model: eval and predict.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_USE_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_USE_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The commands eval and predict of bert_squad. All ranks call them with a validated configuration
// (tasks/question_answering/config.h).

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, all
// with answers, or on the run's own data.dev where it names neither.
Status EvaluateSquadModel(const proto::SquadConfig& config, Runtime& runtime);

// Writes predictions.json, nbest_predictions.json and, where questions may have no answer,
// null_odds.json of data.test, or of data.dev where that is not set; where neither is, of the run's
// own.
Status PredictSquad(const proto::SquadConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_USE_H_
