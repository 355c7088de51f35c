// average_command.cc - `dtrain average RUN OUT`: the mean of checkpoints as one model.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "dtrain/config/flag_set.h"
#include "dtrain/runs/average_checkpoints.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"

namespace dtrain {
namespace {

struct AverageFlags {
  int64_t last = 5;
  std::vector<std::string> paths;  // the arguments
  std::string output;
};

Status ParseAverageFlags(int argc, char** argv, FlagSet& set, AverageFlags& flags) {
  DT_ASSIGN_OR_RETURN(flags.paths, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (flags.paths.size() < 2) {
    return UsageError("give a run or checkpoints and a folder to write: dtrain average RUN OUT");
  }
  if (flags.last < 2) return UsageError("--last is 2 or more");
  flags.output = flags.paths.back();
  flags.paths.pop_back();
  if (flags.last != AverageFlags().last && flags.paths.size() > 1) {
    return UsageError("--last is of a run; of checkpoints that are named all count");
  }
  return OkStatus();
}

Status Average(const AverageFlags& flags, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("dtrain average is one process: start it without mpirun");
  }
  DT_ASSIGN_OR_RETURN(const AveragedCheckpoints result,
                      AverageCheckpoints(flags.paths, flags.last, flags.output));
  std::printf("%s: the mean of %zu checkpoints\n", flags.output.c_str(), result.paths.size());
  for (const std::string& path : result.paths) std::printf("  %s\n", path.c_str());
  return OkStatus();
}

}  // namespace

int AverageCommand(int argc, char** argv) {
  AverageFlags flags;
  FlagSet set("dtrain average RUN OUT_DIR | CHECKPOINT... OUT_DIR [FLAGS]",
              "writes the mean of the weights of a run's newest checkpoints, or of those named, as "
              "a checkpoint to translate, evaluate and export with");
  set.Add("last", "of a run: how many of its checkpoints", &flags.last);
  const Status parsed = ParseAverageFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed, {},
                    [&](Runtime& runtime) { return Average(flags, runtime); });
}

}  // namespace dtrain
