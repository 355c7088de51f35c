// stop_command.cc - `dtrain stop RUN`: asks a training run to save a checkpoint and end.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/file_lock.h"
#include "dtrain/base/host.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "tools/dtrain/commands.h"

namespace dtrain {
namespace {

// What STATUS of a run directory says.
struct RunState {
  std::string state = {};
  std::string step = {};
  std::string host = {};
  pid_t process = 0;
};

StatusOr<RunState> ReadState(const std::string& run) {
  const std::string path = run + "/STATUS";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return UsageError(run + ": is no run directory: it has no file STATUS; give a --run_dir");
  }
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  RunState state;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space);
    const std::string value = line.substr(space + 1);
    if (key == "state") state.state = value;
    if (key == "step") state.step = value;
    if (key == "host") state.host = value;
    if (key == "pid") state.process = std::atoi(value.c_str());
  }
  if (state.process <= 0) return StorageError(path + ": names no process; it is damaged");
  return state;
}

// Whether a process trains in the folder. Such a process holds the folder's lock, which the system
// releases when it dies: unlike its number, the lock cannot belong to another program.
StatusOr<bool> IsTraining(const std::string& run, const RunState& state) {
  DT_ASSIGN_OR_RETURN(const std::optional<FileLock> lock, FileLock::Try(run + "/.lock"));
  if (!lock) return true;
  if (lock->is_held()) return false;
  return UsageError(absl::StrFormat(
      "%s: the file system has no locks, so nothing shows whether process %d is still the run; if "
      "it is: kill -TERM %d",
      run, state.process, state.process));
}

Status Signal(const std::string& run, const RunState& state) {
  if (::kill(state.process, SIGTERM) == 0) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s: process %d, which trains there, takes no signal from here: it belongs to another user "
      "or runs in a container",
      run, state.process));
}

Status StopRun(const std::string& run, bool wait) {
  DT_ASSIGN_OR_RETURN(RunState state, ReadState(run));
  const bool is_running = state.state == "running" || state.state == "preparing";
  if (is_running && state.host != HostName()) {
    return UsageError(absl::StrFormat("%s trains on host %s; stop it there: ssh %s kill -TERM %d",
                                      run, state.host, state.host, state.process));
  }
  bool is_training = false;
  if (is_running) {
    DT_ASSIGN_OR_RETURN(is_training, IsTraining(run, state));
  }
  if (!is_training) {
    std::printf("%s: nothing trains there; the last run is %s at step %s\n", run.c_str(),
                is_running ? "killed" : state.state.c_str(), state.step.c_str());
    return OkStatus();
  }
  DT_RETURN_IF_ERROR(Signal(run, state));
  if (!wait) {
    std::printf("%s: process %d is asked to stop\n", run.c_str(), state.process);
    return OkStatus();
  }
  while (is_training) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    DT_ASSIGN_OR_RETURN(is_training, IsTraining(run, state));
  }
  DT_ASSIGN_OR_RETURN(state, ReadState(run));
  std::printf("%s: %s at step %s\n", run.c_str(), state.state.c_str(), state.step.c_str());
  return OkStatus();
}

Status Stop(int argc, char** argv, FlagSet& set, const bool& wait) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> arguments, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return OkStatus();
  }
  if (arguments.size() != 1) return UsageError("give one run directory: dtrain stop RUN");
  return StopRun(arguments.front(), wait);
}

}  // namespace

int StopCommand(int argc, char** argv) {
  bool wait = true;
  FlagSet set("dtrain stop RUN [--wait=false]",
              "asks the training in the run directory to write a checkpoint and end, on all ranks; "
              "the same training command resumes it");
  set.Add("wait", "return when the run has ended", &wait);
  return ReportAndGetExitCode(Stop(argc, argv, set, wait));
}

}  // namespace dtrain
