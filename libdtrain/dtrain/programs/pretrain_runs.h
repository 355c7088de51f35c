// pretrain_runs.h - pre-trains BERT on running text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_PROGRAMS_PRETRAIN_RUNS_H_
#define DTRAIN_PROGRAMS_PRETRAIN_RUNS_H_

#include "dtrain/base/status.h"
#include "dtrain/runtime/runtime.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The configuration was validated (config/pretrain_config.h). Collective.
// Trains on data.train, evaluates on data.dev or on what is held out. With several trainer.seeds
// one run after the other, each in a folder of run.run_dir, then mean and spread of their metrics.
absl::Status TrainPretraining(const proto::PretrainConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_PROGRAMS_PRETRAIN_RUNS_H_
