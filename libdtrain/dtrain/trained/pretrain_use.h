// pretrain_use.h - what bert_pretrain does with a trained model: eval.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAINED_PRETRAIN_USE_H_
#define DTRAIN_TRAINED_PRETRAIN_USE_H_

#include "dtrain/base/status.h"
#include "dtrain/runtime/runtime.h"

namespace dtrain::proto {
class PretrainConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Of bert_pretrain. The configuration was validated (config/pretrain_config.h). Collective.

// Prints the metrics of a trained model on data.dev, which is the run's own unless given.
absl::Status EvaluatePretrained(const proto::PretrainConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TRAINED_PRETRAIN_USE_H_
