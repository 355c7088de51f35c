// run_directory.h - the folder of one training run: what it was, how it went, what it left.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(RunDirectory run, RunDirectory::Open({.path = flag, .arguments = argv}));
//   DT_ASSIGN_OR_RETURN(const auto checkpoint, FindLatestGood(run.checkpoint_path()));
//   DT_ASSIGN_OR_RETURN(RunMetrics metrics, run.OpenMetrics(restored_step));
//   DT_RETURN_IF_ERROR(metrics.steps.Write(record));
//
// docs/run-directory.md describes every file. The root rank opens the directory first; the others
// only write logs/rank-NNNNN.log, after a barrier.
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
  kAuto,          // continue what is there; begin where nothing is
  kFromElsewhere  // from a checkpoint of another run; what is there may not have one yet
};

struct RunDirectoryOptions {
  std::string path = {};
  ResumePolicy resume = ResumePolicy::kNever;
  // Its name: env.json has it, and a run of another program is refused. "": neither.
  std::string program = {};
  // The program's arguments, arguments[0] its name: for cmdline.txt and for advice.
  std::vector<std::string> arguments = {};
  bool tensorboard = true;  // curves below tb/
};

// What the root rank writes while it trains.
struct RunMetrics {
  MetricsLog steps;  // one record per logged step
  MetricsLog eval;   // one per evaluation
  // start, resume, memory, best, rounds, checkpoint, skip, timeline, stop; never cut back.
  MetricsLog events;
  // None without RunDirectoryOptions::tensorboard.
  std::optional<TensorboardWriter> train_board;
  std::optional<TensorboardWriter> eval_board;

  // Writes everything out; call it before a checkpoint counts as saved.
  Status Flush();
};

// How a run stands, as STATUS says it.
struct RunStatus {
  std::string state = "running";  // or "preparing", "done", "failed", "stopped"
  ExitCode exit_code = ExitCode::kDone;
  int64_t step = 0;
  std::string message = {};  // why it failed or stopped; its line breaks become spaces
};

// The root rank's hold on a run directory. A lock lives as long as this object, so that two
// processes never train into one folder.
class RunDirectory {
 public:
  // Creates the folder and writes cmdline.txt. UsageError (exit code 2): the folder holds a run and
  // `resume` is kNever (the message has both possible commands), holds something else, or another
  // process trains in it, or it is the run of another program. StorageError (exit code 7): the
  // disk.
  static StatusOr<RunDirectory> Open(const RunDirectoryOptions& options);

  const std::string& path() const { return path_; }
  // Whether an earlier process has been here.
  bool is_resumed() const { return is_resumed_; }
  std::string checkpoint_path() const { return path_ + "/ckpt"; }
  // Of the newest checkpoint, good or not; 0 where there is none.
  int64_t last_checkpoint() const;

  // The effective configuration, as text in the file `name`.
  Status WriteConfig(std::string_view text, std::string_view name = "config.textproto") const;
  // env.json, from CollectEnvironment() and what the caller adds, and the program's name.
  Status WriteEnvironment(const JsonRecord& environment) const;
  // Opens metrics/ and, where there are to be curves, tb/. Of an earlier process, records behind
  // `restored_step` are dropped; nothing stands for a start from step 0. evaluation_due: that of
  // the restored step is still to be made, and a record of it is dropped too.
  StatusOr<RunMetrics> OpenMetrics(std::optional<int64_t> restored_step,
                                   bool evaluation_due = false) const;
  // samples/step-00001200.tsv; tabs and newlines of the texts become \t and \n.
  Status WriteSamples(int64_t step, std::span<const EvaluationSample> samples) const;
  // STATUS, replaced in one step; call it every few seconds as a heartbeat.
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

// Whether runs of several seeds may be trained in the folder, in seed-N/ each: it is absent, empty
// or holds such runs. UsageError (exit code 2) otherwise.
Status CheckFolderOfSeeds(const std::string& path);

// An argument as a shell takes it: in quotes where it needs them.
std::string ShellQuote(const std::string& argument);

// Host, processor, cores, memory, system, compiler, start time.
JsonRecord CollectEnvironment();

// A sink that writes every line with time and level to PATH/logs/rank-NNNNN.log, at once, and hands
// it on to `next` (the sink that was installed before, say) if there is one.
StatusOr<LogSink> OpenRankLog(const std::string& run_directory, int rank, LogSink next = {});

}  // namespace dtrain

#endif  // DTRAIN_RUNS_RUN_DIRECTORY_H_
