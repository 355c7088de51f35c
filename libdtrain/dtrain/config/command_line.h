// command_line.h - the flags of programs with a configuration; all else is key.path=value.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_COMMAND_LINE_H_
#define DTRAIN_CONFIG_COMMAND_LINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/config/config.h"

namespace dtrain {

// What the user wants besides, or instead of, a run.
enum class Action { kRun, kHelp, kHelpConfig, kPrintConfig, kVersion };

struct CommandLine {
  Action action = Action::kRun;
  ConfigSources sources;
  ConfigFormat format = ConfigFormat::kFull;  // of kPrintConfig
  std::string section;                        // of kHelpConfig
};

// `arguments` without the program's name. Flags are --name=value or --name value; a few are short
// for keys (--run_dir is run.run_dir) and take their place among the overrides. UsageError for
// unknown flags, with the nearest one.
StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

struct CommandHelp {
  std::string_view name, summary;
};

// Text of --help; `commands` of programs that have some.
std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<CommandHelp>& commands = {});

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_COMMAND_LINE_H_
