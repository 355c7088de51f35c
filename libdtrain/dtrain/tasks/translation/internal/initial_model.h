// initial_model.h - begins a translation run with weights that there are: fine-tuning.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/translation/task.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// If model.init names a run or model.pretrained a published model, gives `config` the shape of that
// model, and its vocabulary for raw training text; and `kept_files` what checkpoints keep of it for
// an export. Dropout stays as the user set it. If those weights are gone and this run has
// checkpoints already, all comes from this run's checkpoint. Returns StorageError if there is no
// such run, another program wrote it, or dtrain cannot do the published model; and UsageError if
// data.vocabulary is set.
Status TakeInitialModel(proto::NmtConfig& config, std::vector<NamedFile>& kept_files);

// Loads those weights into the task. Does nothing if there are none, or the run in `run_dir` will
// resume from a checkpoint. Returns StorageError if the data has another vocabulary. Collective.
Status LoadInitialWeights(const proto::NmtConfig& config, const std::string& run_dir,
                          TranslationTask& task, Runtime& runtime);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_INITIAL_MODEL_H_
