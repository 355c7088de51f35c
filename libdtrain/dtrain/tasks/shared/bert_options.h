// bert_options.h - from the configuration of a BERT to the options the library takes.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_
#define DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/costs.h"
#include "dtrain/train/trainer.h"

namespace dtrain::proto {
class BertModelConfig;
class BertTrainerConfig;
class OptimizerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Defaults of fine-tuning, as textproto: AdamW with a warm-up and a linear decay to 0 (Devlin et
// al. 2019, "BERT", section 4).
std::string_view FineTuningDefaults();

BertOptions EncoderOptionsOf(const proto::BertModelConfig& model);

// recompute=auto needs WithRecompute() of a plan as well (tasks/shared/memory_plan.h). `rank` is
// for dropout of rows without numbers, which differs between ranks.
ContextOptions BertContextOf(const proto::BertTrainerConfig& config, uint64_t seed, int rank);

// The size of an update, in texts or in tokens.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config);
// The same with the order of the texts.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config, uint64_t seed, bool shuffle);

// What is known once the data is open.
struct BertRunFacts {
  std::string run_dir;
  int64_t updates_per_epoch = 1;
  std::string main_metric = {};  // if the configuration names none
  uint64_t seed = 1;
};
// The configuration was validated: its periods and durations parse.
TrainerOptions BertTrainerOf(const proto::BertTrainerConfig& trainer,
                             const proto::OptimizerConfig& optimizer, int64_t hidden_size,
                             const BertRunFacts& run);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_
