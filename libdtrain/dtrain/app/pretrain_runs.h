// pretrain_runs.h - pre-trains BERT on running text and measures what it guesses.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_PRETRAIN_RUNS_H_
#define DTRAIN_APP_PRETRAIN_RUNS_H_

#include "dtrain/app/runtime.h"
#include "dtrain/base/status.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The commands of bert_pretrain. The configuration was validated (app/pretrain_config.h).
// Collective.

// Trains on data.train, evaluates on data.dev or on what is held out. With several trainer.seeds
// one run after the other, each in a folder of run.run_dir, then mean and spread of their metrics.
absl::Status TrainPretraining(const proto::PretrainConfig& config, Runtime& runtime);

// Prints the metrics of a trained model on data.dev, which is the run's own unless given.
absl::Status EvaluatePretrained(const proto::PretrainConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_APP_PRETRAIN_RUNS_H_
