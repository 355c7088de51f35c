// main.cc - command line and configuration before ranks exist, then RunOnRanks().
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/main.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/app/command_line.h"
#include "dtrain/app/config.h"
#include "dtrain/app/run_on_ranks.h"
#include "dtrain/app/version.h"
#include "dtrain/base/period.h"
#include "dtrain/base/thread_pool.h"
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
  // The environment variable wins over the default, not over what the user wrote.
  if (run.has_comm_timeout() || std::getenv("DTRAIN_COMM_TIMEOUT") == nullptr) {
    options.comm_timeout = ParseDuration(run.comm_timeout()).value_or(0);
  }
  return options;
}

// What is printed instead of running.
absl::StatusOr<std::string> Answer(const CommandLine& line, const AnyProgram& program,
                                   const Message& config) {
  switch (line.action) {
    case Action::kRun:
      return std::string();
    case Action::kHelp:
      return HelpText(program.name, program.summary);
    case Action::kVersion:
      return BuildDescription() + "\n";
    case Action::kHelpConfig:
      return DescribeConfig(*config.GetDescriptor(), line.section);
    case Action::kPrintConfig:
      return PrintConfig(config, line.format);
  }
  return std::string();
}

// Everything before ranks exist. Without an `answer` the program shall run.
absl::Status Prepare(const std::vector<std::string>& arguments, const AnyProgram& program,
                     Message& config, std::optional<std::string>& answer) {
  DT_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments));
  // Help must come also where the configuration is broken.
  if (line.action == Action::kRun || line.action == Action::kPrintConfig) {
    DT_RETURN_IF_ERROR(LoadConfig(line.sources, config));
  }
  if (line.action == Action::kRun) return program.validate();
  DT_ASSIGN_OR_RETURN(answer, Answer(line, program, config));
  return absl::OkStatus();
}

}  // namespace

int RunMain(int argc, char** argv, const AnyProgram& program, Message& config) {
  LetWaitingThreadsSleep(argv);
  std::optional<std::string> answer;
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const absl::Status early = Prepare(arguments, program, config, answer);
  if (early.ok() && answer.has_value()) {
    if (LaunchedRank() == 0) std::fwrite(answer->data(), 1, answer->size(), stdout);
    return 0;
  }
  const RuntimeOptions options =
      early.ok() ? RuntimeOptionsFrom(FindRunConfig(config)) : RuntimeOptions{};
  return RunOnRanks(argc, argv, options, early, program.run);
}

}  // namespace dtrain::internal
