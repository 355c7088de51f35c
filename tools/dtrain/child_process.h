// child_process.h - runs another program and waits for it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_CHILD_PROCESS_H_
#define DTRAIN_TOOLS_DTRAIN_CHILD_PROCESS_H_

#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

struct ChildOutcome {
  int exit_code = 0;   // 128 + N if signal N ended it
  std::string output;  // what RunFilter()'s program printed
};

// Runs a program, by its path or found in PATH, with this process's input and output. Ctrl-C
// reaches it, not this process, so it decides how to end. Returns UsageError if it cannot be
// started.
StatusOr<ChildOutcome> RunProgram(const std::vector<std::string>& command);

// The same with `input` (at most 4 KiB) as its standard input and its standard output kept.
StatusOr<ChildOutcome> RunFilter(const std::vector<std::string>& command, const std::string& input);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_CHILD_PROCESS_H_
