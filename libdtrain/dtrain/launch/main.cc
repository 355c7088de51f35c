// main.cc - command line and configuration before ranks exist, then RunOnRanks().
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/main.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/period.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/config/command_line.h"
#include "dtrain/config/config.h"
#include "dtrain/config/internal/config_fields.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/version.h"
#include "dtrain/run.pb.h"

namespace dtrain::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The section of type RunConfig; the defaults where there is none.
proto::RunConfig FindRunConfig(const Message& config) {
  for (int i = 0; i < config.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = config.GetDescriptor()->field(i);
    if (!field->is_repeated() && field->message_type() == proto::RunConfig::descriptor()) {
      proto::RunConfig run;
      run.CopyFrom(config.GetReflection()->GetMessage(config, field));
      return run;
    }
  }
  return {};
}

RuntimeOptions RuntimeOptionsFrom(const proto::RunConfig& run) {
  RuntimeOptions options;
  if (run.device() == proto::cpu) options.device = DeviceChoice::kCpu;
  if (run.device() == proto::cuda) options.device = DeviceChoice::kCuda;
  options.threads = run.threads();
  // DTRAIN_COMM_TIMEOUT, which may be set for the first rank alone, wins over the default, not over
  // what the user wrote.
  if (run.has_comm_timeout()) options.comm_timeout = ParseDuration(run.comm_timeout()).value_or(0);
  return options;
}

std::string Help(const AnyProgram& program, const std::vector<std::string>& keys) {
  std::vector<CommandHelp> commands;
  for (const AnyCommand& command : program.commands) {
    if (!command.name.empty()) commands.push_back({command.name, command.summary});
  }
  return HelpText(program.name, program.summary, keys, commands, program.example);
}

// What is printed instead of running.
StatusOr<std::string> Answer(const CommandLine& line, const AnyProgram& program,
                             const Message& config, const Message& defaults) {
  switch (line.action) {
    case Action::kRun:
      return std::string();
    case Action::kHelp:
      return Help(program, ConfigKeys(*config.GetDescriptor()));
    case Action::kVersion:
      return BuildDescription() + "\n";
    case Action::kHelpConfig:
      return DescribeConfig(defaults, line.section, program.most_used);
    case Action::kPrintConfig:
      return PrintConfig(config, line.format, &defaults);
  }
  return std::string();
}

// The command that the first argument names, which is taken away. Null where it names none.
const AnyCommand* TakeCommand(const AnyProgram& program, std::vector<std::string>& arguments) {
  if (program.commands.front().name.empty()) return &program.commands.front();
  for (const AnyCommand& command : program.commands) {
    if (arguments.empty() || arguments.front() != command.name) continue;
    arguments.erase(arguments.begin());
    return &command;
  }
  return nullptr;
}

Status NoCommand(const AnyProgram& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const AnyCommand& command : program.commands) names.emplace_back(command.name);
  const bool is_word = !arguments.empty() && arguments.front()[0] != '-' &&
                       arguments.front().find('=') == std::string::npos;
  const std::string which = absl::StrJoin(names, ", ");
  if (!is_word) {
    return UsageError(absl::StrFormat("which command? %s %s: one of %s (see --help)", program.name,
                                      names.front(), which));
  }
  return UsageError(absl::StrFormat("%s: unknown command%s; it is one of %s (see --help)",
                                    Shorten(arguments.front()),
                                    DidYouMean(arguments.front(), names), which));
}

// Everything before ranks exist. Without an `answer` the program shall run `command`. `defaults`
// becomes the configuration where nobody sets anything.
Status Prepare(std::vector<std::string> arguments, const AnyProgram& program, Message& config,
               Message& defaults, const AnyCommand*& command, std::optional<std::string>& answer) {
  command = TakeCommand(program, arguments);
  if (!program.defaults.empty()) {
    const std::string name = absl::StrFormat("the defaults of %s", program.name);
    DT_RETURN_IF_ERROR(MergeConfigText(program.defaults, name, "", config));
  }
  defaults.CopyFrom(config);
  DT_ASSIGN_OR_RETURN(const CommandLine line,
                      ParseCommandLine(arguments, ConfigKeys(*config.GetDescriptor())));
  // Help must come also where the configuration is broken.
  if (line.action == Action::kRun || line.action == Action::kPrintConfig) {
    if (line.action == Action::kRun && command == nullptr) return NoCommand(program, arguments);
    DT_RETURN_IF_ERROR(LoadConfig(line.sources, config));
  }
  if (line.action == Action::kRun) return command->validate();
  DT_ASSIGN_OR_RETURN(answer, Answer(line, program, config, defaults));
  return OkStatus();
}

}  // namespace

int RunMain(int argc, char** argv, const AnyProgram& program, Message& config) {
  ReexecWithPassiveWaiting();
  // Whoever read the terminal's lines may go; the run goes on.
  std::signal(SIGPIPE, SIG_IGN);
  std::optional<std::string> answer;
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const AnyCommand* command = nullptr;
  const std::unique_ptr<Message> defaults(config.New());
  const Status early = Prepare(arguments, program, config, *defaults, command, answer);
  if (early.ok() && answer.has_value()) {
    if (LaunchedRank() != 0) return 0;
    const Status written = WriteStdout(*answer);
    return written.ok() ? 0 : ReportAndGetExitCode(written);
  }
  const RuntimeOptions options =
      early.ok() ? RuntimeOptionsFrom(FindRunConfig(config)) : RuntimeOptions{};
  const auto& run = command == nullptr ? program.commands.front().run : command->run;
  return RunOnRanks(argc, argv, options, early, [&](Runtime& runtime) {
    SettleDefaults(*defaults);
    runtime.default_config = PrintConfig(*defaults, ConfigFormat::kFull);
    return run(runtime);
  });
}

}  // namespace dtrain::internal
