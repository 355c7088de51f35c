// export_hf_command.cc - `dtrain export-hf RUN OUT_DIR`: a model for Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "dtrain/config/flag_set.h"
#include "dtrain/tasks/registry.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"

namespace dtrain {
namespace {

struct ExportFlags {
  HfExportOptions options;
  std::string metric;
  std::string model_path;  // the arguments
  std::string output_dir;
};

Status ParseExportFlags(int argc, char** argv, FlagSet& set, ExportFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (positional.size() != 2) {
    return UsageError("give a run or checkpoint and a folder to write: dtrain export-hf RUN OUT");
  }
  flags.model_path = positional[0];
  flags.output_dir = positional[1];
  return OkStatus();
}

Status Export(const ExportFlags& flags, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("dtrain export-hf is one process: start it without mpirun");
  }
  DT_ASSIGN_OR_RETURN(
      const HfExportResult result,
      ExportRunToHuggingFace(flags.model_path, flags.metric, flags.output_dir, flags.options));
  std::printf("%s: %s, from %s\n", flags.output_dir.c_str(), result.class_name.c_str(),
              result.checkpoint.c_str());
  return OkStatus();
}

}  // namespace

int ExportHfCommand(int argc, char** argv) {
  ExportFlags flags;
  std::string summary = "writes a model folder for Hugging Face's transformers";
  for (const TaskProgram* const program : TaskPrograms()) {
    summary.append(program == TaskPrograms().front() ? ": " : ", ")
        .append(program->exported_classes);
  }
  FlagSet set("dtrain export-hf RUN_OR_CHECKPOINT OUT_DIR [FLAGS]", summary);
  set.Add("metric", "of a run's checkpoints the best by this metric; default: as the run",
          &flags.metric);
  set.Add("adapter",
          "write the adapters of a run with model.lora alone, for the peft library, instead of a "
          "model that has them in its weights",
          &flags.options.adapter);
  set.Add("overwrite", "replace the files of an earlier export; never of a run",
          &flags.options.overwrite);
  const Status parsed = ParseExportFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed, {},
                    [&](Runtime& runtime) { return Export(flags, runtime); });
}

}  // namespace dtrain
