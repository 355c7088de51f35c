// marian_folder.h - a published Marian model as a translation run's configuration and weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_MARIAN_FOLDER_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_MARIAN_FOLDER_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/models/pretrained_weights.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/train/task.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The files of a checkpoint that an export takes keys from: the config.json and the
// generation_config.json that a run began with.
inline constexpr char kKeptConfigFile[] = "pretrained_config.json";
inline constexpr char kGenerationFile[] = "generation_config.json";

// Whether `path` is a folder as transformers saves models, not a run or a checkpoint of dtrain.
bool IsPublishedFolder(const std::string& path);

// Whether that folder is of a Marian model, of whatever shape.
bool IsMarianFolder(const std::string& path);

// Gives `config` the shape of the MarianMTModel in `folder`, the size of its vocabulary, and unless
// `config` sets them, dropout, whether <pad> is learned (where its row is not zero), and the beam
// search of its generation_config.json. StorageError: the
// model is of another kind, or computes what dtrain does not; the message names the key.
Status ReadMarianFolder(const std::string& folder, proto::NmtConfig& config);

// Loads the weights of the folder. `parameters` must be allocated, and have that shape.
StatusOr<PretrainedReport> LoadMarianWeights(const std::string& folder, ParameterSet& parameters);
// Reports what that would load, without loading it. `parameters` need no memory.
StatusOr<PretrainedReport> MatchMarianWeights(const std::string& folder, ParameterSet& parameters);

// The files kKeptConfigFile and kGenerationFile, as far as `folder`, a published model or a
// checkpoint, has them.
StatusOr<std::vector<NamedFile>> ReadKeptFiles(const std::string& folder);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_MARIAN_FOLDER_H_
