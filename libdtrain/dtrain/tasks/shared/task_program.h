// task_program.h - a task's program: its commands, and what the tool `dtrain` needs to know of it.
// SPDX-License-Identifier: Apache-2.0
//
//   const TaskProgram& ClassificationProgram();   // each task's program.h has such a function
//
//   int main(int argc, char** argv) {
//     return dtrain::Main(argc, argv, dtrain::ClassificationProgram());
//   }
//
// tasks/registry.h lists the programs of all tasks. docs/dev/add-a-task.md says how to add one.
#ifndef DTRAIN_TASKS_SHARED_TASK_PROGRAM_H_
#define DTRAIN_TASKS_SHARED_TASK_PROGRAM_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/launch/main.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/shared/hf_export.h"
#include "dtrain/tasks/shared/workload.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain {

// Writes the model of a checkpoint into a folder, and returns the class of transformers that loads
// it.
using HfExporter = std::function<StatusOr<std::string>(
    const std::string& checkpoint_path, const std::string& directory, const HfExportOptions&)>;

// The parts of a task's program. Its configuration is a message of type Config.
template <typename Config>
struct TaskProgramOptions {
  std::string_view name;                         // "bert_classify"
  std::string_view summary;                      // one line, for --help
  std::string_view example = "";                 // a command line to begin with, for --help
  std::string_view defaults = "";                // textproto: those that are not the fields' own
  std::vector<std::string_view> most_used = {};  // the keys that --help_config begins with
  // The command of a program that does one thing has no name.
  std::vector<Command<Config>> commands;
  // Checks the configuration, data aside, and says what a run with it would compute.
  std::function<StatusOr<Workload>(const Config&, const WorkloadOptions&)> workload;
  // The files that tell its checkpoints from those of other programs.
  std::vector<std::string_view> checkpoint_files;
  HfExporter export_to_hugging_face;
  // "of classification runs BertForSequenceClassification".
  std::string_view exported_classes = "";
};

// The same for any type of configuration. The functions take the program's own messages.
struct TaskProgram {
  struct AnyCommand {
    std::string_view name;
    std::string_view summary;
    std::function<Status(const google::protobuf::Message&)> validate;
    std::function<Status(const google::protobuf::Message&, Runtime&)> run;
  };

  std::string_view name;
  std::string_view summary;
  std::string_view example;
  std::string_view defaults;
  std::vector<std::string_view> most_used;
  std::vector<AnyCommand> commands;
  std::function<std::unique_ptr<google::protobuf::Message>()> new_config;
  std::function<StatusOr<Workload>(const google::protobuf::Message&, const WorkloadOptions&)>
      workload;
  std::vector<std::string_view> checkpoint_files;
  HfExporter export_to_hugging_face;
  std::string_view exported_classes;
};

template <typename Config>
TaskProgram MakeTaskProgram(const TaskProgramOptions<Config>& options) {
  using Message = google::protobuf::Message;
  TaskProgram program{
      .name = options.name,
      .summary = options.summary,
      .example = options.example,
      .defaults = options.defaults,
      .most_used = options.most_used,
      .commands = {},
      .new_config = [] { return std::unique_ptr<Message>(std::make_unique<Config>()); },
      .workload =
          [workload = options.workload](const Message& config, const WorkloadOptions& of) {
            return workload(dynamic_cast<const Config&>(config), of);
          },
      .checkpoint_files = options.checkpoint_files,
      .export_to_hugging_face = options.export_to_hugging_face,
      .exported_classes = options.exported_classes};
  for (const Command<Config>& command : options.commands) {
    program.commands.push_back({.name = command.name,
                                .summary = command.summary,
                                .validate =
                                    [validate = command.validate](const Message& config) {
                                      return validate
                                                 ? validate(dynamic_cast<const Config&>(config))
                                                 : OkStatus();
                                    },
                                .run =
                                    [run = command.run](const Message& config, Runtime& runtime) {
                                      return run(dynamic_cast<const Config&>(config), runtime);
                                    }});
  }
  return program;
}

// Runs the command that the arguments name (launch/main.h), and returns main()'s exit code.
int Main(int argc, char** argv, const TaskProgram& program);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_TASK_PROGRAM_H_
