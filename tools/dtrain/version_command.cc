// version_command.cc - `dtrain version`: what was built, how, and for which kernels.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/version.h"
#include "tools/dtrain/commands.h"

namespace dtrain {

int VersionCommand(int argc, char** argv) {
  FlagSet flags("dtrain version", "prints version, build type, compiler and CPU kernels");
  const Status status = flags.ParseAll(argc, argv);
  if (!status.ok()) return ReportAndGetExitCode(status);
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
  } else {
    std::puts(BuildDescription().c_str());
  }
  return 0;
}

}  // namespace dtrain
