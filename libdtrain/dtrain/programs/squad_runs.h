// squad_runs.h - trains BERT to answer questions.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_PROGRAMS_SQUAD_RUNS_H_
#define DTRAIN_PROGRAMS_SQUAD_RUNS_H_

#include "dtrain/base/status.h"
#include "dtrain/runtime/runtime.h"

namespace dtrain::proto {
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The configuration was validated (config/squad_config.h). Collective.
// Trains on data.train, evaluates on data.dev. With several trainer.seeds one run after the other,
// each in a folder of run.run_dir, then mean and spread of their metrics.
absl::Status TrainSquad(const proto::SquadConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_PROGRAMS_SQUAD_RUNS_H_
