// main.cc - `dtrain COMMAND ...`: finds the command in a table and hands over.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/bus_error.h"
#include "dtrain/base/file.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/config/nearest_name.h"
#include "dtrain/launch/run_on_ranks.h"
#include "tools/dtrain/commands.h"

namespace dtrain {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands = {
    Command{"demo", "train on sample texts, score the model, translate", DemoCommand},
    Command{"prepare", "turn raw parallel text into data to train from", PrepareCommand},
    Command{"tokenizer", "learn a tokenizer's vocabulary from text of one's own", TokenizerCommand},
    Command{"translate", "translate lines of text with a trained model", TranslateCommand},
    Command{"eval", "BLEU and chrF2 of a model or of a file of translations", EvalCommand},
    Command{"average", "write the mean of several checkpoints as one model", AverageCommand},
    Command{"export-hf", "write a model folder for Hugging Face transformers", ExportHfCommand},
    Command{"inspect", "what a model folder is, and what training would load", InspectCommand},
    Command{"estimate", "memory, FLOPs and sizes of a run before it starts", EstimateCommand},
    Command{"plan", "predict a run's speed on hosts and networks to come", PlanCommand},
    Command{"doctor", "measure hosts, network, disk and clocks of a job", DoctorCommand},
    Command{"report", "how a run went, as a page: verdicts, curves, time, data", ReportCommand},
    Command{"top", "how a run stands, live on a terminal, from its files", TopCommand},
    Command{"stop", "ask a training run to save a checkpoint and end", StopCommand},
    Command{"trace-merge", "join the timelines of a run's ranks into one trace", TraceMergeCommand},
    Command{"version", "print version and build", VersionCommand},
};

const Command* FindCommand(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

void PrintHelp(std::FILE* out) {
  std::fputs(
      "dtrain - prepares data, estimates, examines, translates, evaluates and exports\n\n"
      "Usage: dtrain COMMAND [FLAGS] [ARGUMENTS]\n\n",
      out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-12s %s\n", std::string(command.name).c_str(),
                 std::string(command.summary).c_str());
  }
  std::fprintf(out, "  %-12s %s\n\nDetails: dtrain help COMMAND\n", "help",
               "print this, or the help of a command");
}

int UnknownCommand(const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const Command& command : kCommands) names.emplace_back(command.name);
  if (name == "train" || name == "predict" || name == "classify") {
    return ReportAndGetExitCode(UsageError("unknown command \"" + name +
                                           "\"; training and predicting are programs of their own: "
                                           "nmt_train, bert_classify, bert_squad, bert_tag, "
                                           "bert_pretrain and lm_train (see dtrain help)"));
  }
  if (name == "wordpiece") {
    return ReportAndGetExitCode(UsageError(
        "unknown command \"wordpiece\"; it is now dtrain tokenizer learn --type=wordpiece "
        "--output=DIR FILE..., which writes DIR/vocab.txt (see dtrain help tokenizer)"));
  }
  return ReportAndGetExitCode(UsageError("unknown command \"" + Printable(name) + "\"" +
                                         DidYouMean(name, names) + " (see dtrain help)"));
}

int Help(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[2]) == "help") {
    PrintHelp(stdout);
    return 0;
  }
  const Command* const command = FindCommand(argv[2]);
  if (command == nullptr) return UnknownCommand(argv[2]);
  std::string flag = "--help";
  std::array<char*, 3> arguments = {argv[2], flag.data(), nullptr};
  return command->run(2, arguments.data());
}

int RunTool(int argc, char** argv) {
  ReexecWithPassiveWaiting();
  ReportShrunkFiles();
  const std::string name = argc < 2 ? "" : argv[1];
  if (name.empty()) {
    PrintHelp(stderr);
    return static_cast<int>(ExitCode::kUsage);
  }
  if (name == "help" || name == "--help" || name == "-h") return Help(argc, argv);
  const Command* const command = FindCommand(name == "--version" ? "version" : name);
  if (command == nullptr) return UnknownCommand(name);
  return command->run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  const int exit_code = dtrain::RunTool(argc, argv);
  if (exit_code != 0) return exit_code;
  // What a command printed is its result.
  const dtrain::Status printed = dtrain::WriteStdout("");
  return printed.ok() ? 0 : dtrain::ReportAndGetExitCode(printed);
}
