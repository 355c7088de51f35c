// measure_updates.cc - starts the program, reads its metrics until there are enough, and ends it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/measure_updates.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/launch/progress.h"
#include "dtrain/tasks/registry.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kUpdates = 13;
constexpr size_t kFirst = 3;  // updates that reserve memory and prepare products do not count

// A folder that is removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    path_ = ((error ? fs::path("/tmp") : parent) / "dtrain-measure-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> CommandOf(const std::string& program, const ConfigSources& sources,
                                   const std::string& run) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::vector<std::string> command = {(self.parent_path() / program).string()};
  for (const TaskProgram* const task : TaskPrograms()) {
    // Training is the first command. It has no name if the program does nothing else.
    if (task->name != program || task->commands.front().name.empty()) continue;
    command.emplace_back(task->commands.front().name);
  }
  for (const std::string& file : sources.files) command.push_back("--config=" + file);
  command.insert(command.end(), sources.overrides.begin(), sources.overrides.end());
  for (const char* const setting :
       {"trainer.log_every=1", "run.progress=none", "run.tensorboard=false", "run.report=false",
        "run.details=false", "run.sample_seconds=0", "run.resume=auto"}) {
    command.push_back(setting);
  }
  command.push_back("run.run_dir=" + run);
  return command;
}

// A child process with its output in a file; killed at the end if it still runs.
class Child {
 public:
  Child(const std::vector<std::string>& command, const std::string& output) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file >= 0) {
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
    }
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ <= 0 || !IsRunning()) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  bool IsRunning() {
    if (process_ <= 0) return false;
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == 0) return true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    process_ = -1;
    return false;
  }
  int exit_code() const { return exit_code_; }

 private:
  pid_t process_ = -1;
  int exit_code_ = 127;
};

struct Record {
  double seconds = 0;
  double step = 0;
  double epoch = 0;
};

std::vector<Record> RecordsOf(const std::string& run) {
  std::vector<Record> records;
  const StatusOr<std::string> text = ReadWholeFile(run + "/metrics/steps.jsonl");
  if (!text.ok()) return records;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const auto json = internal::ParseJson<nlohmann::json>(line);
    if (!json.is_object() || !json.contains("step_ms") || !json["step_ms"].is_number()) continue;
    records.push_back(
        {json["step_ms"].get<double>() / 1e3, json.value("step", 0.0), json.value("epoch", 0.0)});
  }
  return records;
}

// The error that the program printed, with its exit code.
Status ErrorOf(const std::string& program, int exit_code, const std::string& output) {
  const StatusOr<std::string> text = ReadWholeFile(output);
  std::istringstream lines(text.ok() ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find("dtrain: error[E");
    const size_t end = start == std::string::npos ? start : line.find("]: ", start);
    if (end == std::string::npos) continue;
    line = line.substr(end + 3);
    return Status(static_cast<ExitCode>(exit_code), line.substr(0, line.rfind(" (see docs/")));
  }
  return InternalError(absl::StrFormat("%s ended with code %d", program, exit_code));
}

StatusOr<MeasuredUpdates> Summarise(const std::vector<Record>& records) {
  if (records.size() <= kFirst) {
    return UsageError("--measure: the run has too few updates to measure");
  }
  std::vector<double> seconds;
  for (size_t i = kFirst; i < records.size(); ++i) seconds.push_back(records[i].seconds);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  const Record& last = records.back();
  return MeasuredUpdates{.seconds = *middle,
                         .epochs_per_update = last.step > 0 ? last.epoch / last.step : 0};
}

int64_t LimitOf(const Message& trainer, const char* name) {
  const FieldDescriptor* const field = trainer.GetDescriptor()->FindFieldByName(name);
  return field == nullptr ? 0 : trainer.GetReflection()->GetInt64(trainer, field);
}

}  // namespace

StatusOr<MeasuredUpdates> MeasureUpdates(const std::string& program, const ConfigSources& sources) {
  const ScratchFolder scratch;
  if (scratch.path().empty()) return StorageError("--measure: no temporary folder can be made");
  const std::string run = scratch.path() + "/run";
  const std::string output = scratch.path() + "/output";
  Child child(CommandOf(program, sources, run), output);
  std::vector<Record> records;
  bool is_running = true;
  while (is_running && records.size() < kUpdates) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_running = child.IsRunning();
    records = RecordsOf(run);
  }
  if (!is_running && child.exit_code() != 0) return ErrorOf(program, child.exit_code(), output);
  return Summarise(records);
}

std::string DescribeDuration(const Message& config, const MeasuredUpdates& measured) {
  const FieldDescriptor* const field = config.GetDescriptor()->FindFieldByName("trainer");
  const Message& trainer = config.GetReflection()->GetMessage(config, field);
  double updates = std::numeric_limits<double>::infinity();
  if (const int64_t steps = LimitOf(trainer, "max_steps"); steps > 0) {
    updates = static_cast<double>(steps);
  }
  const int64_t epochs = LimitOf(trainer, "max_epochs");
  if (epochs > 0 && measured.epochs_per_update > 0) {
    updates = std::min(updates, static_cast<double>(epochs) / measured.epochs_per_update);
  }
  const std::string update = measured.seconds < 10
                                 ? absl::StrFormat("%.1f ms", measured.seconds * 1e3)
                                 : FormatDuration(measured.seconds);
  std::string text = "measured, one rank on this machine\n  an update   " + update + "\n";
  if (std::isfinite(updates)) {
    text += absl::StrFormat("  the run     about %s: %.0f updates, without evaluations\n",
                            FormatDuration(updates * measured.seconds), updates);
  } else {
    text += "  the run     ends by trainer.max_time, not by a number of updates\n";
  }
  return text;
}

}  // namespace dtrain
