// bert_options.h - from the configuration of a BERT to the options the library takes.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_
#define DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_

#include <cstdint>
#include <string>

#include "dtrain/nn/context.h"
#include "dtrain/nn/costs.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/classification/task.h"
#include "dtrain/train/trainer.h"

namespace dtrain::proto {
class BertConfig;
class BertModelConfig;
class BertTrainerConfig;
class OptimizerConfig;
}  // namespace dtrain::proto

namespace dtrain {

BertOptions EncoderOptionsOf(const proto::BertModelConfig& model);
// loss and num_labels are the data's.
BertClassifierOptions ClassifierOptionsOf(const proto::BertConfig& config);

// Dropout of rows without numbers draws others on each rank.
ContextOptions BertContextOf(const proto::BertTrainerConfig& config, uint64_t seed, int rank);

// With recomputation as planned (tasks/shared/memory_plan.h), which recompute=auto needs.
ContextOptions BertContextOf(const proto::BertTrainerConfig& config, uint64_t seed, int rank,
                             const RecomputePlan& plan);

// Texts or tokens of an update.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config);
// And their order.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config, uint64_t seed, bool shuffle);

// All but the shards and the files that travel in checkpoints.
ClassificationTaskOptions ClassificationTaskOf(const proto::BertConfig& config, uint64_t seed,
                                               const Device& device);

// What is known where the data is.
struct BertRunFacts {
  std::string run_dir;
  int64_t updates_per_epoch = 1;
  std::string main_metric = {};  // where the configuration names none
  uint64_t seed = 1;
};
// The configuration was validated: its periods and durations parse.
TrainerOptions BertTrainerOf(const proto::BertTrainerConfig& trainer,
                             const proto::OptimizerConfig& optimizer, int64_t hidden_size,
                             const BertRunFacts& run);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_
