// run_command.h - the end of every command that needs ranks: its help, its error, or its work.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_RUN_COMMAND_H_
#define DTRAIN_TOOLS_DTRAIN_RUN_COMMAND_H_

#include <functional>

#include "dtrain/base/status.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain {

// Prints the flags' help where --help was among them. Else reports `parsed` if it is an error, or
// runs `body`. Returns the exit code.
int RunCommand(int argc, char** argv, const FlagSet& flags, const Status& parsed,
               const RuntimeOptions& options, const std::function<Status(Runtime&)>& body);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_RUN_COMMAND_H_
