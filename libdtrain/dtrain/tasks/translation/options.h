// options.h - converts a translation configuration to the library's options.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_OPTIONS_H_
#define DTRAIN_TASKS_TRANSLATION_OPTIONS_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/models/beam_search.h"
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

// Does not set vocab_size, pad and label_smoothing, which come from the data and the trainer
// section.
Seq2SeqOptions ModelOptionsOf(const proto::ModelConfig& config);
// Gives a model the sizes of the tokenizer's vocabularies, and its pad.
void TakeVocabulary(const TranslationTokenizer& tokenizer, Seq2SeqOptions& model);

// The beam search of evaluations, without what the tokenizer says (SearchOptionsFor()).
BeamSearchOptions SearchOptionsOf(const proto::TrainerConfig& config);

// `rank` changes the dropout of rows without numbers. recompute=auto requires WithRecompute() of a
// plan as well (tasks/shared/memory_plan.h).
ContextOptions ContextOptionsOf(const proto::TrainerConfig& config, int rank);

PrepareOptions PrepareOptionsOf(const proto::DataConfig& config, const std::string& output_dir);

TranslationTaskOptions TaskOptionsOf(const proto::NmtConfig& config, const std::string& data_dir,
                                     const Device& device);

// The configuration must be validated, so that its periods and durations parse. updates_per_epoch
// is approximate; it is used by learning rates that fall until the end of the last epoch.
TrainerOptions TrainerOptionsOf(const proto::NmtConfig& config, const std::string& run_dir,
                                int64_t updates_per_epoch);

// The settings that must be equal on all ranks: every section except `run`, whose paths and display
// may differ.
std::string AgreedSettings(const proto::NmtConfig& config);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_OPTIONS_H_
