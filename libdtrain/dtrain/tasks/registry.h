// registry.h - the programs of all tasks.
// SPDX-License-Identifier: Apache-2.0
//
// Whoever works on every task loops over TaskPrograms(): the tool `dtrain` finds out which program
// a configuration or a checkpoint belongs to.
#ifndef DTRAIN_TASKS_REGISTRY_H_
#define DTRAIN_TASKS_REGISTRY_H_

#include <span>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/task_program.h"

namespace dtrain {

std::span<const TaskProgram* const> TaskPrograms();

// The program whose configuration this message is. The message is one of a task.
const TaskProgram& TaskProgramOf(const google::protobuf::Message& config);

// Writes a model folder for Hugging Face's transformers into `directory`; config.json comes last,
// so that a folder with one is complete. `path` is a run, a folder of checkpoints or a checkpoint,
// of any program. Of a run's checkpoints it takes the best by `metric`, or with "" the run's own
// best. UsageError: the folder is not empty, or the model fits no class. StorageError: the
// checkpoint is damaged, or the disk is full.
StatusOr<HfExportResult> ExportRunToHuggingFace(const std::string& path, const std::string& metric,
                                                const std::string& directory,
                                                const HfExportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_REGISTRY_H_
