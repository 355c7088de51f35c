// task_program.cc - hands a task's commands to launch/main.h.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/task_program.h"

#include <google/protobuf/message.h>

namespace dtrain {

int Main(int argc, char** argv, const TaskProgram& program) {
  const std::unique_ptr<google::protobuf::Message> config = program.new_config();
  internal::AnyProgram any{.name = program.name,
                           .summary = program.summary,
                           .example = program.example,
                           .defaults = program.defaults,
                           .most_used = program.most_used};
  for (const TaskProgram::AnyCommand& command : program.commands) {
    any.commands.push_back(
        {.name = command.name,
         .summary = command.summary,
         .validate = [&] { return command.validate(*config); },
         .run = [&](Runtime& runtime) { return command.run(*config, runtime); }});
  }
  return internal::RunMain(argc, argv, any, *config);
}

}  // namespace dtrain
