// commands.h - the subcommands of the dtrain tool, one file each.
// SPDX-License-Identifier: Apache-2.0
//
// To add one: write NAME_command.cc, declare its function here, list it in CMakeLists.txt and in
// the table of main.cc. The function gets argv from the command's own name on, answers --help, and
// returns the exit code; RunOnRanks() (dtrain/launch/run_on_ranks.h) and FlagSet
// (dtrain/config/flag_set.h) do the rest.
#ifndef DTRAIN_TOOLS_DTRAIN_COMMANDS_H_
#define DTRAIN_TOOLS_DTRAIN_COMMANDS_H_

namespace dtrain {

int DemoCommand(int argc, char** argv);
int AverageCommand(int argc, char** argv);
int TranslateCommand(int argc, char** argv);
int EvalCommand(int argc, char** argv);
int ExportHfCommand(int argc, char** argv);
int InspectCommand(int argc, char** argv);
int PrepareCommand(int argc, char** argv);
int TokenizerCommand(int argc, char** argv);
int EstimateCommand(int argc, char** argv);
int PlanCommand(int argc, char** argv);
int DoctorCommand(int argc, char** argv);
int ReportCommand(int argc, char** argv);
int StopCommand(int argc, char** argv);
int TopCommand(int argc, char** argv);
int TraceMergeCommand(int argc, char** argv);
int VersionCommand(int argc, char** argv);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_COMMANDS_H_
