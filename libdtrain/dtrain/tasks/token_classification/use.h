// use.h - what bert_tag does with a trained model: eval and predict.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_USE_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_USE_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain::proto {
class TokenClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The configuration was validated (tasks/token_classification/config.h). Collective.

// Prints the metrics of a trained model on data.dev and data.test that the configuration names, or
// on the run's own where it names neither.
Status EvaluateTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

// Writes a file of words and predicted tags: of data.test, or of data.dev where that is not set.
Status PredictWithTagger(const proto::TokenClassificationConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_USE_H_
