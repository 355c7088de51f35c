// initial_model.h - begins a translation run with the weights of another run: fine-tuning.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/translation/task.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// If model.init names a run, gives `config` the shape of that run's model, and its vocabulary for
// raw training text. Dropout stays as the user set it. If that run is gone and this run has
// checkpoints already, shape and vocabulary come from this run's checkpoint. Returns StorageError
// if there is no such run or another program wrote it, and UsageError if data.vocabulary is set.
Status TakeInitialModel(proto::NmtConfig& config);

// Loads the weights of model.init into the task. Does nothing if model.init is empty or the run in
// `run_dir` will resume from a checkpoint. Returns StorageError if the data has another vocabulary.
// Collective.
Status LoadInitialWeights(const proto::NmtConfig& config, const std::string& run_dir,
                          TranslationTask& task, Runtime& runtime);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_
