// registry.cc - one line a task.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/registry.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/tasks/classification/program.h"
#include "dtrain/tasks/language_model/program.h"
#include "dtrain/tasks/pretraining/program.h"
#include "dtrain/tasks/question_answering/program.h"
#include "dtrain/tasks/shared/internal/trained_run.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tasks/token_classification/program.h"
#include "dtrain/tasks/translation/program.h"

namespace dtrain {
namespace {

// The program that wrote the checkpoint: of those whose files are all there the one with the most.
// The first program, which names what is missing, where there is none.
const TaskProgram& ProgramOf(const Checkpoint& checkpoint) {
  const TaskProgram* writer = nullptr;
  for (const TaskProgram* const program : TaskPrograms()) {
    const auto& files = program->checkpoint_files;
    const bool has_all = std::all_of(files.begin(), files.end(), [&](std::string_view file) {
      return internal::HasCheckpointFile(checkpoint, file);
    });
    if (!has_all) continue;
    if (writer == nullptr || files.size() > writer->checkpoint_files.size()) writer = program;
  }
  return writer == nullptr ? *TaskPrograms().front() : *writer;
}

}  // namespace

std::span<const TaskProgram* const> TaskPrograms() {
  static const TaskProgram* const programs[] = {
      &TranslationProgram(),       &ClassificationProgram(),      &PretrainingProgram(),
      &QuestionAnsweringProgram(), &TokenClassificationProgram(), &LanguageModelProgram(),
  };
  return programs;
}

const TaskProgram& TaskProgramOf(const google::protobuf::Message& config) {
  const auto is_of = [&](const TaskProgram* program) {
    return program->new_config()->GetDescriptor() == config.GetDescriptor();
  };
  const auto programs = TaskPrograms();
  const auto found = std::find_if(programs.begin(), programs.end(), is_of);
  DT_CHECK(found != programs.end()) << config.GetTypeName() << " is no task's configuration";
  return **found;
}

StatusOr<HfExportResult> ExportRunToHuggingFace(const std::string& path, const std::string& metric,
                                                const std::string& directory,
                                                const HfExportOptions& options) {
  DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, internal::OpenBestCheckpoint(path, metric));
  DT_ASSIGN_OR_RETURN(
      std::string class_name,
      ProgramOf(checkpoint).export_to_hugging_face(checkpoint.path(), directory, options));
  return HfExportResult{.class_name = std::move(class_name), .checkpoint = checkpoint.path()};
}

}  // namespace dtrain
