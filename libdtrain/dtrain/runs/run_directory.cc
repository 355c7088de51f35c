// run_directory.cc - creates, refuses and fills run directories.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/run_directory.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/host.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/internal/append_file.h"
#include "dtrain/runs/internal/tsv_field.h"
#include "dtrain/runs/internal/unused_path.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

using internal::AppendFile;

constexpr char kLockName[] = ".lock";

// Returns for example "2026-11-21T04:12:33.123Z".
std::string TimeStamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%03dZ", text.data(), milliseconds);
}

std::string CommandLine(std::span<const std::string> arguments) {
  return absl::StrJoin(arguments, " ", [](std::string* out, const std::string& argument) {
    out->append(ShellQuote(argument));
  });
}

// The command line with --name=value replacing any earlier value of that flag or of run.name.
std::string CommandWith(std::span<const std::string> arguments, const std::string& name,
                        const std::string& value) {
  std::vector<std::string> changed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view flag = arguments[i];
    if (flag.starts_with("run." + name + "=")) continue;
    if (flag.starts_with("--")) flag.remove_prefix(1);
    if (flag == "-" + name) {
      ++i;  // the value is a separate argument
    } else if (!flag.starts_with("-" + name + "=")) {
      changed.push_back(arguments[i]);
    }
  }
  changed.push_back("--" + name + "=" + value);
  return CommandLine(changed);
}

bool IsEmptyOrAbsent(const std::string& path) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() != kLockName) return false;
  }
  return true;
}

// True if the folder holds runs of several seeds, finished or not.
bool HoldsSeeds(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/seeds.json", error)) return true;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code missing;
    if (it->path().filename().string().starts_with("seed-") &&
        fs::exists(it->path() / "cmdline.txt", missing)) {
      return true;
    }
  }
  return false;
}

Status RefuseRun(const RunDirectoryOptions& options) {
  const size_t checkpoints = ListCheckpoints(options.path + "/ckpt").size();
  return UsageError(absl::StrFormat(
      "%s: a run is already there (checkpoints: %d). To continue it:\n  %s\nTo start anew in "
      "another folder:\n  %s",
      options.path, checkpoints, CommandWith(options.arguments, "resume", "auto"),
      CommandWith(options.arguments, "run_dir", internal::UnusedPathBeside(options.path))));
}

// The program that last trained in the folder, from env.json; "" if there is none, or if the run is
// of an earlier version.
std::string ProgramOf(const std::string& path) {
  const StatusOr<std::string> text = ReadWholeFile(path + "/env.json");
  if (!text.ok()) return "";
  const auto json = internal::ParseJson<nlohmann::json>(*text);
  if (!json.is_object() || !json.contains("program") || !json["program"].is_string()) return "";
  return json["program"];
}

// Called before data of one program could be prepared into the folder of another.
Status CheckProgram(const RunDirectoryOptions& options) {
  const std::string there = ProgramOf(options.path);
  if (there.empty() || options.program.empty() || there == options.program) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s: is a run of %s, and this is %s; choose another --run_dir, nothing there was changed",
      options.path, there, options.program));
}

// Checks that the folder may be trained in. Sets `is_resumed` if it holds a run.
Status CheckFolder(const RunDirectoryOptions& options, bool& is_resumed) {
  if (options.path.empty()) return UsageError("the run directory has no name; give --run_dir=PATH");
  std::error_code error;
  const fs::file_status folder = fs::status(options.path, error);
  if (error && folder.type() != fs::file_type::not_found) {
    return FileError(options.path, "look into", error.value());
  }
  if (fs::is_symlink(options.path, error) && !fs::exists(folder)) {
    return UsageError(options.path +
                      ": is a link whose target does not exist; choose another --run_dir");
  }
  if (fs::exists(folder) && !fs::is_directory(folder)) {
    return UsageError(options.path + ": not a folder; choose another --run_dir");
  }
  is_resumed = false;
  if (IsEmptyOrAbsent(options.path)) return OkStatus();
  if (HoldsSeeds(options.path)) {
    return UsageError(options.path + ": holds runs of several seeds; name one of them (--run_dir=" +
                      options.path + "/seed-N), or another folder");
  }
  if (!fs::exists(options.path + "/cmdline.txt", error)) {
    return UsageError(options.path +
                      ": not empty and not a run directory; choose another --run_dir, nothing "
                      "there was changed");
  }
  DT_RETURN_IF_ERROR(CheckProgram(options));
  // A run that failed before its first checkpoint has nothing to lose.
  const bool may_begin_again = options.resume == ResumePolicy::kFromElsewhere &&
                               ListCheckpoints(options.path + "/ckpt").empty();
  if (options.resume != ResumePolicy::kAuto && !may_begin_again) return RefuseRun(options);
  is_resumed = true;
  return OkStatus();
}

StatusOr<FileLock> LockFolder(const std::string& path) {
  DT_ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::Try(path + "/" + kLockName));
  if (lock) {
    if (!lock->is_held()) {
      LogWarning(path +
                 ": the file system has no locks (flock), so nothing prevents a second job from "
                 "training in this folder, which would destroy both runs");
    }
    return *std::move(lock);
  }
  return UsageError(path +
                    ": another process is training in this folder; wait for it, stop it, or choose "
                    "another --run_dir (STATUS names it)");
}

// The value after "key : " in a file of such lines, like those in /proc.
std::string ValueOf(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

}  // namespace

Status CheckFolderOfSeeds(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/cmdline.txt", error)) {
    return UsageError(path +
                      ": holds a run of one seed, but several seeds need a separate folder; choose "
                      "another --run_dir, nothing there was changed");
  }
  if (IsEmptyOrAbsent(path) || HoldsSeeds(path)) return OkStatus();
  return UsageError(
      path +
      ": not empty, and it has no runs of several seeds; choose another --run_dir, nothing "
      "there was changed");
}

std::string ShellQuote(const std::string& argument) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) return argument;
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Status RunMetrics::Flush() {
  DT_RETURN_IF_ERROR(steps.Flush());
  DT_RETURN_IF_ERROR(eval.Flush());
  DT_RETURN_IF_ERROR(events.Flush());
  DT_RETURN_IF_ERROR(phases.Flush());
  DT_RETURN_IF_ERROR(norms.Flush());
  if (train_board) DT_RETURN_IF_ERROR(train_board->Flush());
  return eval_board ? eval_board->Flush() : OkStatus();
}

StatusOr<RunDirectory> RunDirectory::Open(const RunDirectoryOptions& options) {
  bool is_resumed = false;
  DT_RETURN_IF_ERROR(CheckFolder(options, is_resumed));
  DT_RETURN_IF_ERROR(MakeDirectories(options.path));
  DT_ASSIGN_OR_RETURN(FileLock lock, LockFolder(options.path));
  RunDirectory run(options, is_resumed, std::move(lock));
  // Written first, because this file makes the folder a run directory, even if the disk becomes
  // full later. Appended, so that a resumed run keeps its earlier commands.
  DT_ASSIGN_OR_RETURN(AppendFile commands,
                      AppendFile::Open(options.path + "/cmdline.txt", AppendFile::Mode::kAppend));
  DT_RETURN_IF_ERROR(
      commands.Append(TimeStamp() + "  " + CommandLine(options.arguments) + "\n", 0));
  DT_RETURN_IF_ERROR(commands.Flush());
  for (const char* const folder : {"metrics", "logs", "ckpt", "samples"}) {
    DT_RETURN_IF_ERROR(MakeDirectories(options.path + "/" + folder));
  }
  return run;
}

Status RunDirectory::WriteConfig(std::string_view text, std::string_view name) const {
  return WriteFileAtomically(path_ + "/" + std::string(name), text);
}

Status RunDirectory::WriteEnvironment(const JsonRecord& environment) const {
  JsonRecord written = environment;
  if (!program_.empty()) written.Set("program", program_);
  return WriteFileAtomically(path_ + "/env.json", written.ToString() + "\n");
}

StatusOr<RunMetrics> RunDirectory::OpenMetrics(std::optional<int64_t> restored_step,
                                               bool evaluation_due) const {
  // Without a checkpoint to continue from, the earlier process' records belong to steps that will
  // be repeated.
  const int64_t last_step = restored_step.value_or(-1);
  const int64_t last_evaluation = evaluation_due ? last_step - 1 : last_step;
  const auto board_step = [&](int64_t step) {
    return is_resumed_ ? std::optional<int64_t>(step) : std::nullopt;
  };
  const auto open = [&](std::string_view stream, std::optional<int64_t> restored) {
    return MetricsLog::Open(RecordsPath(path_, stream), stream, restored);
  };
  DT_ASSIGN_OR_RETURN(MetricsLog steps, open(recorded::kSteps, last_step));
  DT_ASSIGN_OR_RETURN(MetricsLog eval, open(recorded::kEvaluations, last_evaluation));
  DT_ASSIGN_OR_RETURN(MetricsLog events, open(recorded::kEvents, std::nullopt));
  DT_ASSIGN_OR_RETURN(MetricsLog phases, open(recorded::kPhases, last_step));
  DT_ASSIGN_OR_RETURN(MetricsLog norms, open(recorded::kNorms, last_step));
  RunMetrics opened{.steps = std::move(steps),
                    .eval = std::move(eval),
                    .events = std::move(events),
                    .phases = std::move(phases),
                    .norms = std::move(norms),
                    .train_board = std::nullopt,
                    .eval_board = std::nullopt};
  if (!tensorboard_) return opened;
  DT_ASSIGN_OR_RETURN(TensorboardWriter train_board,
                      TensorboardWriter::Create(path_ + "/tb/train", board_step(last_step)));
  DT_ASSIGN_OR_RETURN(TensorboardWriter eval_board,
                      TensorboardWriter::Create(path_ + "/tb/eval", board_step(last_evaluation)));
  opened.train_board.emplace(std::move(train_board));
  opened.eval_board.emplace(std::move(eval_board));
  return opened;
}

Status RunDirectory::WriteSamples(int64_t step, std::span<const EvaluationSample> samples) const {
  std::string text = "source\treference\thypothesis\n";
  for (const EvaluationSample& sample : samples) {
    text += internal::EscapeField(sample.source) + "\t" + internal::EscapeField(sample.reference) +
            "\t" + internal::EscapeField(sample.hypothesis) + "\n";
  }
  return WriteFileAtomically(absl::StrFormat("%s/samples/%s.tsv", path_, CheckpointName(step)),
                             text);
}

int64_t RunDirectory::last_checkpoint() const {
  const std::vector<int64_t> steps = ListCheckpoints(checkpoint_path());
  return steps.empty() ? 0 : steps.back();
}

Status RunDirectory::WriteStatus(const RunStatus& status) const {
  std::string text = absl::StrFormat(
      "state %s\nexit_code %d\nstep %d\nhost %s\npid %d\nheartbeat %s\n", status.state,
      static_cast<int>(status.exit_code), status.step, HostName(), ::getpid(), TimeStamp());
  if (!status.message.empty()) {
    text += "message " + status.message;
    std::replace(text.end() - static_cast<ptrdiff_t>(status.message.size()), text.end(), '\n', ' ');
    text += '\n';
  }
  const std::string path = path_ + "/STATUS";
  const auto replace = [&]() -> Status {
    DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    DT_RETURN_IF_ERROR(file.Write(text));
    // A heartbeat need not survive a crash of the machine, and syncing takes milliseconds.
    const bool is_heartbeat = status.state == "running" || status.state == "preparing";
    return file.Commit(is_heartbeat ? AtomicFile::Durability::kCrashOfProcess
                                    : AtomicFile::Durability::kDurable);
  };
  Status replaced = replace();
  if (replaced.ok()) return replaced;
  // If the disk is full, overwrite the existing file in place, because the final state must not
  // remain "running".
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return replaced;
  const auto size = static_cast<ssize_t>(text.size());
  const bool written = ::pwrite(file, text.data(), text.size(), 0) == size &&
                       ::ftruncate(file, static_cast<off_t>(size)) == 0;
  ::close(file);
  if (written) return OkStatus();
  return replaced;
}

JsonRecord CollectEnvironment() {
  utsname names{};
  ::uname(&names);
  JsonRecord record;
  record.Set("started", TimeStamp())
      .Set("host", names.nodename)
      .Set("system", absl::StrFormat("%s %s %s", names.sysname, names.release, names.machine))
      .Set("processor", ValueOf("/proc/cpuinfo", "model name"))
      .Set("cores", std::thread::hardware_concurrency())
      .Set("memory", ValueOf("/proc/meminfo", "MemTotal"))
      .Set("compiler", __VERSION__);
  return record;
}

StatusOr<LogSink> OpenRankLog(const std::string& run_directory, int rank, LogSink next) {
  DT_RETURN_IF_ERROR(MakeDirectories(run_directory + "/logs"));
  DT_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(absl::StrFormat("%s/logs/rank-%05d.log",
                                                                        run_directory, rank),
                                                        AppendFile::Mode::kAppend));
  // A LogSink can be copied but an open file cannot, so copies of the sink share it.
  auto log = std::make_shared<AppendFile>(std::move(file));
  return LogSink([log, next = std::move(next)](LogLevel level, std::string_view message) {
    // An unwritable log must not end the run.
    static_cast<void>(log->Append(
        absl::StrFormat("%s %-7s %s\n", TimeStamp(), ToAbsl(LogLevelName(level)), ToAbsl(message)),
        0));
    if (next) next(level, message);
  });
}

}  // namespace dtrain
