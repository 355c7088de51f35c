// run_directory.h - the folder of one training run: configuration, logs, checkpoints, status.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(RunDirectory run, RunDirectory::Open({.path = flag, .arguments = argv}));
//   DT_ASSIGN_OR_RETURN(const auto checkpoint, FindLatestGood(run.checkpoint_path()));
//   DT_ASSIGN_OR_RETURN(RunMetrics metrics, run.OpenMetrics(restored_step));
//   DT_RETURN_IF_ERROR(metrics.steps.Write(record));
//
// docs/run-directory.md describes every file. The root rank opens the directory first. The other
// ranks only write logs/rank-NNNNN.log, after a barrier.
#ifndef DTRAIN_RUNS_RUN_DIRECTORY_H_
#define DTRAIN_RUNS_RUN_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/file_lock.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"
#include "dtrain/runs/evaluation_sample.h"
#include "dtrain/runs/metrics_log.h"
#include "dtrain/runs/tensorboard_writer.h"

namespace dtrain {

enum class ResumePolicy {
  kNever,         // the folder must be empty or absent
  kAuto,          // continue the run that is there, or begin a new one
  kFromElsewhere  // start from a checkpoint of another run; a run that is there must not have
                  // checkpoints yet
};

struct RunDirectoryOptions {
  std::string path = {};
  ResumePolicy resume = ResumePolicy::kNever;
  // Name of the program, which is stored in env.json. A run of another program is refused. "" turns
  // both off.
  std::string program = {};
  // The program's arguments, with its name as arguments[0], for cmdline.txt and for advice in
  // messages.
  std::vector<std::string> arguments = {};
  bool tensorboard = true;  // write curves to tb/
};

// The files that the root rank writes while it trains.
struct RunMetrics {
  MetricsLog steps;  // one record for each logged step
  MetricsLog eval;   // one record for each evaluation
  // start, resume, memory, best, rounds, checkpoint, skip, timeline, stop; never truncated.
  MetricsLog events;
  MetricsLog phases;  // where the time of each rank went
  MetricsLog norms;   // of groups of parameters
  // Absent if RunDirectoryOptions::tensorboard is false.
  std::optional<TensorboardWriter> train_board;
  std::optional<TensorboardWriter> eval_board;

  // Writes everything to the files. Call it before a checkpoint counts as saved.
  Status Flush();
};

// The state of a run, as shown in the file STATUS.
struct RunStatus {
  std::string state = "running";  // or "preparing", "done", "failed", "stopped"
  ExitCode exit_code = ExitCode::kDone;
  int64_t step = 0;
  std::string message = {};  // why the run failed or stopped; line breaks become spaces
};

// The root rank's access to a run directory. It holds a lock as long as it exists, so that two
// processes never train in one folder.
class RunDirectory {
 public:
  // Creates the folder and writes cmdline.txt. Returns UsageError (exit code 2) in these cases: the
  // folder holds a run and `resume` is kNever (the message shows the commands to continue it or to
  // start another); it holds something else; another process trains in it; it is the run of another
  // program. Returns StorageError (exit code 7) for disk errors.
  static StatusOr<RunDirectory> Open(const RunDirectoryOptions& options);

  const std::string& path() const { return path_; }
  // True if the folder already held a run.
  bool is_resumed() const { return is_resumed_; }
  std::string checkpoint_path() const { return path_ + "/ckpt"; }
  // Step of the newest checkpoint, valid or not; 0 if there is none.
  int64_t last_checkpoint() const;

  // Writes the effective configuration to the file `name`.
  Status WriteConfig(std::string_view text, std::string_view name = "config.textproto") const;
  // Writes env.json: CollectEnvironment(), the caller's additions, and the program's name.
  Status WriteEnvironment(const JsonRecord& environment) const;
  // Opens metrics/ and, if enabled, tb/. Records of an earlier process after `restored_step` are
  // dropped; nullopt means a start from step 0. evaluation_due: the evaluation of the restored step
  // must still be made, so an existing record of it is dropped too.
  StatusOr<RunMetrics> OpenMetrics(std::optional<int64_t> restored_step,
                                   bool evaluation_due = false) const;
  // Writes samples/step-00001200.tsv. Tabs and newlines in the texts become \t and \n.
  Status WriteSamples(int64_t step, std::span<const EvaluationSample> samples) const;
  // Replaces STATUS atomically. Call it every few seconds as a heartbeat.
  Status WriteStatus(const RunStatus& status) const;

 private:
  RunDirectory(const RunDirectoryOptions& options, bool is_resumed, FileLock lock)
      : path_(options.path),
        program_(options.program),
        is_resumed_(is_resumed),
        tensorboard_(options.tensorboard),
        lock_(std::move(lock)) {}

  std::string path_;
  std::string program_;
  bool is_resumed_;
  bool tensorboard_;
  FileLock lock_;
};

// Checks that runs of several seeds may be trained in the folder, in seed-N/ each: it must be
// absent, empty, or hold such runs. Otherwise UsageError (exit code 2).
Status CheckFolderOfSeeds(const std::string& path);

// An argument as a shell reads it, in quotes if necessary.
std::string ShellQuote(const std::string& argument);

// Host, processor, cores, memory, system, compiler and start time.
JsonRecord CollectEnvironment();

// A sink that writes every line, with time and level, to PATH/logs/rank-NNNNN.log at once, and then
// passes it to `next` (for example the previous sink), if given.
StatusOr<LogSink> OpenRankLog(const std::string& run_directory, int rank, LogSink next = {});

}  // namespace dtrain

#endif  // DTRAIN_RUNS_RUN_DIRECTORY_H_
