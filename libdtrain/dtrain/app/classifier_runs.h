// classifier_runs.h - the commands of bert_classify: train, eval, predict.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_CLASSIFIER_RUNS_H_
#define DTRAIN_APP_CLASSIFIER_RUNS_H_

#include "dtrain/app/runtime.h"
#include "dtrain/base/status.h"

namespace dtrain::proto {
class BertConfig;
}  // namespace dtrain::proto

namespace dtrain {

// One run, or with several trainer.seeds one after the other, each in seed-N/ of the run directory;
// then the mean and the spread of their metrics, printed and written to seeds.json.
absl::Status TrainClassifier(const proto::BertConfig& config, Runtime& runtime);

// The metrics of a trained model on the dev and test sets of its run, or of the command line,
// printed.
absl::Status EvaluateClassifier(const proto::BertConfig& config, Runtime& runtime);

// The predictions of a trained model for the test sets, or where there are none the dev sets,
// written to predict.output.
absl::Status PredictWithClassifier(const proto::BertConfig& config, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_APP_CLASSIFIER_RUNS_H_
