// main.h - main() of a program with a configuration: one call does all that is not its own work.
// SPDX-License-Identifier: Apache-2.0
//
//   int main(int argc, char** argv) {
//     return dtrain::Main<proto::NmtConfig>(
//         argc, argv, {.name = "nmt_train", .summary = "trains a translation model",
//                      .validate = ValidateNmtConfig, .run = TrainNmt});
//   }
//
// A program that does several things has commands instead: `bert_classify predict ...`.
//
// Flags, configuration, MPI, device, threads, signals, logging, the report of an error and the exit
// code of every rank are Main's business. Exit codes: docs/errors.md.
#ifndef DTRAIN_LAUNCH_MAIN_H_
#define DTRAIN_LAUNCH_MAIN_H_

#include <functional>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain {

template <typename Config>
struct Command {
  std::string_view name;
  std::string_view summary;  // one line, for --help
  // Called after files, overrides and the rules of each field were applied; may be left out.
  std::function<Status(const Config&)> validate = nullptr;
  std::function<Status(const Config&, Runtime&)> run;
};

template <typename Config>
struct Program {
  std::string_view name;
  std::string_view summary;       // one line, for --help
  std::string_view example = "";  // a command line to begin with, for --help
  // As of a command, for a program that does one thing.
  std::function<Status(const Config&)> validate = nullptr;
  std::function<Status(const Config&, Runtime&)> run = nullptr;
  // Textproto: defaults of this program that are not those of the fields. --help_config shows them.
  std::string_view defaults = "";
  // The first argument of the command line names one of them.
  std::vector<Command<Config>> commands = {};
};

namespace internal {

struct AnyCommand {
  std::string_view name;  // "" of a program that does one thing
  std::string_view summary;
  std::function<Status()> validate;
  std::function<Status(Runtime&)> run;
};

struct AnyProgram {
  std::string_view name;
  std::string_view summary;
  std::string_view example;
  std::string_view defaults;
  std::vector<std::string_view> most_used = {};  // the keys that --help_config begins with
  std::vector<AnyCommand> commands = {};
};

// Fills `config`, which the two functions look at. Where it has a section of type RunConfig, that
// says which device, how many threads and how long to wait for ranks.
int RunMain(int argc, char** argv, const AnyProgram& program, google::protobuf::Message& config);

}  // namespace internal

template <typename Config>
int Main(int argc, char** argv, const Program<Config>& program) {
  Config config;
  internal::AnyProgram any{.name = program.name,
                           .summary = program.summary,
                           .example = program.example,
                           .defaults = program.defaults};
  const auto add = [&](std::string_view name, std::string_view summary, const auto& command) {
    any.commands.push_back(
        {.name = name,
         .summary = summary,
         .validate = [&] { return command.validate ? command.validate(config) : OkStatus(); },
         .run = [&](Runtime& runtime) { return command.run(config, runtime); }});
  };
  for (const Command<Config>& command : program.commands)
    add(command.name, command.summary, command);
  if (program.commands.empty()) add("", "", program);
  return internal::RunMain(argc, argv, any, config);
}

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_MAIN_H_
