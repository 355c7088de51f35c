// run_command.cc - help, or ranks.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/run_command.h"

#include <cstdio>

namespace dtrain {

int RunCommand(int argc, char** argv, const FlagSet& flags, const Status& parsed,
               const RuntimeOptions& options, const std::function<Status(Runtime&)>& body) {
  if (parsed.ok() && flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  return RunOnRanks(argc, argv, options, parsed, body);
}

}  // namespace dtrain
