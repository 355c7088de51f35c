// command_line.h - parses the command line of programs: flags, and key.path=value.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_COMMAND_LINE_H_
#define DTRAIN_CONFIG_COMMAND_LINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/config/config.h"

namespace dtrain {

// The user's request: a run, or one of the others instead.
enum class Action { kRun, kHelp, kHelpConfig, kPrintConfig, kVersion };

struct CommandLine {
  Action action = Action::kRun;
  ConfigSources sources;
  ConfigFormat format = ConfigFormat::kFull;  // for kPrintConfig
  std::string section;                        // for kHelpConfig
};

// `arguments` does not include the program's name. Flags are --name=value or --name value. A few
// flags are short forms of keys (--run_dir is run.run_dir) and are added to the overrides. Returns
// UsageError for unknown flags. It suggests the nearest flag, or the key if the flag is one of the
// program's `keys` or another program's name for one.
StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                       const std::vector<std::string>& keys);

struct CommandHelp {
  std::string_view name, summary;
};

// The text of --help. `keys` are those of the program's configuration: a flag that stands for
// another key is left out. `commands` for programs that have commands, `example` is a command line.
std::string HelpText(std::string_view program, std::string_view summary,
                     const std::vector<std::string>& keys,
                     const std::vector<CommandHelp>& commands = {}, std::string_view example = "");

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_COMMAND_LINE_H_
