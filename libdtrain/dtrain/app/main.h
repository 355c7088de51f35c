// main.h - main() of a program with a configuration: one call does all that is not its own work.
// SPDX-License-Identifier: Apache-2.0
//
//   int main(int argc, char** argv) {
//     return dtrain::Main<proto::NmtConfig>(
//         argc, argv, {.name = "nmt_train", .summary = "trains a translation model",
//                      .validate = ValidateNmtConfig, .run = TrainNmt});
//   }
//
// Flags, configuration, MPI, device, threads, signals, logging, the report of an error and the exit
// code of every rank are Main's business. Exit codes: docs/errors.md.
#ifndef DTRAIN_APP_MAIN_H_
#define DTRAIN_APP_MAIN_H_

#include <functional>
#include <string_view>

#include "dtrain/app/runtime.h"
#include "dtrain/base/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain {

template <typename Config>
struct Program {
  std::string_view name;
  std::string_view summary;  // one line, for --help
  // Called after files, overrides and the rules of each field were applied; may be left out.
  std::function<absl::Status(const Config&)> validate = nullptr;
  std::function<absl::Status(const Config&, Runtime&)> run;
};

namespace internal {

struct AnyProgram {
  std::string_view name;
  std::string_view summary;
  std::function<absl::Status()> validate;
  std::function<absl::Status(Runtime&)> run;
};

// Fills `config`, which the two functions look at. Where it has a section of type RunConfig, that
// says which device, how many threads and how long to wait for ranks.
int RunMain(int argc, char** argv, const AnyProgram& program, google::protobuf::Message& config);

}  // namespace internal

template <typename Config>
int Main(int argc, char** argv, const Program<Config>& program) {
  Config config;
  return internal::RunMain(
      argc, argv,
      {.name = program.name,
       .summary = program.summary,
       .validate = [&] { return program.validate ? program.validate(config) : absl::OkStatus(); },
       .run = [&](Runtime& runtime) { return program.run(config, runtime); }},
      config);
}

}  // namespace dtrain

#endif  // DTRAIN_APP_MAIN_H_
