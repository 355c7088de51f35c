// options.h - from the configuration's messages to the options the library takes.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_OPTIONS_H_
#define DTRAIN_TASKS_TRANSLATION_OPTIONS_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/tasks/translation/task.h"
#include "dtrain/train/trainer.h"

namespace dtrain::proto {
class DataConfig;
class ModelConfig;
class NmtConfig;
class TrainerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// vocab_size and label_smoothing are not the model section's: the data and the trainer set them.
Seq2SeqOptions ModelOptionsOf(const proto::ModelConfig& config);

// recompute=auto needs WithRecompute() of a plan as well (tasks/shared/memory_plan.h). `rank` is
// for dropout of rows without numbers, which differs between ranks.
ContextOptions ContextOptionsOf(const proto::TrainerConfig& config, int rank);

PrepareOptions PrepareOptionsOf(const proto::DataConfig& config, const std::string& output_dir);

TranslationTaskOptions TaskOptionsOf(const proto::NmtConfig& config, const std::string& data_dir,
                                     const Device& device);

// The configuration was validated: its periods and durations parse. updates_per_epoch: about, for
// learning rates that fall to the end of the last epoch.
TrainerOptions TrainerOptionsOf(const proto::NmtConfig& config, const std::string& run_dir,
                                int64_t updates_per_epoch);

// What must be equal on all ranks: every section but `run`, whose paths and display may differ.
std::string TrainingContract(const proto::NmtConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_OPTIONS_H_
