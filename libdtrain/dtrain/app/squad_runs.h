// squad_runs.h - trains BERT to answer questions, measures it, and answers with it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_SQUAD_RUNS_H_
#define DTRAIN_APP_SQUAD_RUNS_H_

#include "dtrain/app/runtime.h"
#include "dtrain/base/status.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The commands of bert_squad. The configuration was validated (app/squad_config.h). Collective.

// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
absl::Status TrainSquad(const proto::SquadConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, all
// with answers, or on the run's own data.dev where it names neither.
absl::Status EvaluateSquadModel(const proto::SquadConfig& config, Runtime& runtime);

// Writes predictions.json, nbest_predictions.json and, where questions may have no answer,
// null_odds.json of data.test, or of data.dev where that is not set; where neither is, of the run's
// own.
absl::Status PredictSquad(const proto::SquadConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_APP_SQUAD_RUNS_H_
