// bert_options.h - converts a BERT configuration to the library's options.
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

// The defaults for fine-tuning, as textproto: AdamW with a warm-up and a linear decay to 0.
std::string_view FineTuningDefaults();

// The family that the configuration names.
const EncoderFamily& FamilyOf(const proto::BertModelConfig& model);
void SetFamily(const EncoderFamily& family, proto::BertModelConfig& model);

// The name of the table of words among the weights.
std::string WordTableName(const proto::BertModelConfig& model);

BertOptions EncoderOptionsOf(const proto::BertModelConfig& model);

// `rank` changes the dropout of rows without numbers. recompute=auto requires WithRecompute() of a
// plan as well (tasks/shared/memory_plan.h).
ContextOptions BertContextOf(const proto::BertTrainerConfig& config, uint64_t seed, int rank);

// The number of texts or tokens per update.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config);
// Also sets the order of samples.
BatchOptions BertBatchOf(const proto::BertTrainerConfig& config, uint64_t seed, bool shuffle);

// The warm-up of trainer.warmup_ratio, rounded up.
int64_t WarmupStepsOf(float warmup_ratio, int64_t total_steps);

// Values that are known only where the data is.
struct BertRunFacts {
  std::string run_dir;
  int64_t updates_per_epoch = 1;
  std::string main_metric = {};  // used if the configuration names no metric
  uint64_t seed = 1;
};
// The configuration must be validated, so that its periods and durations parse.
TrainerOptions BertTrainerOf(const proto::BertTrainerConfig& trainer,
                             const proto::OptimizerConfig& optimizer, int64_t hidden_size,
                             const BertRunFacts& run);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_OPTIONS_H_
