// trace_merge_command.cc - `dtrain trace-merge DIR -o FILE`: one trace of all ranks' traces.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/runs/trace_files.h"
#include "tools/dtrain/commands.h"

namespace dtrain {
namespace {

Status Merge(int argc, char** argv, FlagSet& set, std::string& output) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> arguments, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return OkStatus();
  }
  if (arguments.size() != 1) {
    return UsageError("give one folder of traces, or one run directory");
  }
  std::string directory = arguments[0];
  if (std::filesystem::is_directory(directory + "/trace")) directory += "/trace";
  if (output.empty()) output = directory + "/merged.json";
  DT_ASSIGN_OR_RETURN(const MergedTrace merged, MergeTraces(directory, output));
  std::string missing;
  if (!merged.missing.empty()) {
    missing = absl::StrCat("; without rank ", absl::StrJoin(merged.missing, ", "));
  }
  std::fputs(absl::StrFormat("%s: %d events of %d ranks%s; open it in https://ui.perfetto.dev\n",
                             output, merged.events,
                             merged.ranks - static_cast<int>(merged.missing.size()), missing)
                 .c_str(),
             stdout);
  return OkStatus();
}

}  // namespace

int TraceMergeCommand(int argc, char** argv) {
  std::string output;
  FlagSet set(
      "dtrain trace-merge DIR [-o FILE]",
      "joins the traces that the ranks of a run with trainer.timeline=true, or a StepTimeline, "
      "wrote into one, on one clock; DIR is the run directory or its trace/");
  set.Add("o", "file to write; without it merged.json beside the traces", &output);
  return ReportAndGetExitCode(Merge(argc, argv, set, output));
}

}  // namespace dtrain
