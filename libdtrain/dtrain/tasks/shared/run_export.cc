// run_export.cc - which export a run's checkpoint wants is told by the files it holds.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "dtrain/tasks/shared/hf_export.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/translation/translation_model.h"

namespace dtrain {
namespace {

StatusOr<std::string> Export(const Checkpoint& checkpoint, const std::string& directory,
                             const HfExportOptions& options) {
  const std::string& path = checkpoint.path();
  if (checkpoint.Has("answers.txt")) return ExportSquadToHuggingFace(path, directory, options);
  if (checkpoint.Has("labels.txt")) return ExportClassifierToHuggingFace(path, directory, options);
  if (checkpoint.Has("vocab.txt")) return ExportPretrainingToHuggingFace(path, directory, options);
  DT_ASSIGN_OR_RETURN(const TranslationModel trained, LoadTranslationModel(path));
  return ExportToHuggingFace(trained, directory, options);
}

}  // namespace

StatusOr<HfExportResult> ExportRunToHuggingFace(const std::string& path, const std::string& metric,
                                                const std::string& directory,
                                                const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, internal::OpenBestCheckpoint(path, metric));
  DT_ASSIGN_OR_RETURN(std::string class_name, Export(checkpoint, directory, options));
  return HfExportResult{.class_name = std::move(class_name), .checkpoint = checkpoint.path()};
}

}  // namespace dtrain
