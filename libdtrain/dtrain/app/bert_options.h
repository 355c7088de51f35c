// bert_options.h - from a BertConfig's messages to the options the library takes.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_BERT_OPTIONS_H_
#define DTRAIN_APP_BERT_OPTIONS_H_

#include <cstdint>
#include <string>

#include "dtrain/models/bert_classifier.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/costs.h"
#include "dtrain/train/classification_task.h"
#include "dtrain/train/trainer.h"

namespace dtrain::proto {
class BertConfig;
class BertModelConfig;
class ClassifierTrainerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// loss and num_labels are the data's.
BertClassifierOptions ClassifierOptionsOf(const proto::BertConfig& config);

// Dropout draws other numbers on each rank.
ContextOptions ClassifierContextOf(const proto::ClassifierTrainerConfig& config, uint64_t seed,
                                   int rank);

// With recomputation as planned (app/memory_plan.h), which recompute=auto needs.
ContextOptions ClassifierContextOf(const proto::ClassifierTrainerConfig& config, uint64_t seed,
                                   int rank, const RecomputePlan& plan);

// Texts or tokens of an update.
BatchOptions ClassifierBatchOf(const proto::ClassifierTrainerConfig& config);

// All but the shards and the files that travel in checkpoints.
ClassificationTaskOptions ClassificationTaskOf(const proto::BertConfig& config, uint64_t seed,
                                               const Device& device);

// What is known where the data is.
struct ClassifierRun {
  std::string run_dir;
  int64_t updates_per_epoch = 1;
  std::string main_metric = {};  // where the configuration names none
  uint64_t seed = 1;
};
// The configuration was validated: its periods and durations parse.
TrainerOptions ClassifierTrainerOf(const proto::BertConfig& config, const ClassifierRun& run);

// What must be equal on all ranks: every section but those of paths and display.
std::string ClassifierContract(const proto::BertConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_APP_BERT_OPTIONS_H_
