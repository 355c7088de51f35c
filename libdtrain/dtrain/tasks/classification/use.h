// use.h - what bert_classify does with a trained model: eval and predict.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_USE_H_
#define DTRAIN_TASKS_CLASSIFICATION_USE_H_

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain::proto {
class ClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The commands eval and predict of bert_classify. All ranks call them with a validated
// configuration (tasks/classification/config.h).

// Prints the metrics of a trained model on the dev and test sets of its run or of the command line.
Status EvaluateClassifier(const proto::ClassificationConfig& config, Runtime& runtime);

// The predictions of a trained model for the test sets, or where there are none the dev sets,
// written to predict.output.
Status PredictWithClassifier(const proto::ClassificationConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_USE_H_
