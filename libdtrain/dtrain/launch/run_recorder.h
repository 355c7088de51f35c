// run_recorder.h - writes what a training run does: run directory, curves, terminal.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_RUN_RECORDER_H_
#define DTRAIN_LAUNCH_RUN_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/launch/evaluation_history.h"
#include "dtrain/launch/host_sampler.h"
#include "dtrain/launch/progress.h"
#include "dtrain/launch/repeated_warnings.h"
#include "dtrain/launch/report_writer.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/run_records.h"
#include "dtrain/runs/run_directory.h"
#include "dtrain/train/trainer.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain::proto {
class RunConfig;
}  // namespace dtrain::proto

namespace dtrain {

// The words in which a run reports its numbers.
struct RunWords {
  std::string unit = "tokens";    // of what the loss is a mean over
  bool has_perplexity = true;     // the nll is a cross-entropy
  std::string keys = "trainer.";  // before the names of limits
  std::string advice = {};        // the last line, which the path follows; "" prints none
};

// The folder of a run and its display, as in RunConfig (proto/dtrain/run.proto).
struct RunRecorderOptions {
  std::string run_dir = {};  // "": a new one below runs/
  // "auto" goes on from what is there, "never" refuses a folder that holds a run; else where the
  // checkpoint of another run lies. RunTrainingOptions::resume is to say the same.
  std::string resume = "auto";
  ProgressStyle progress = ProgressStyle::kAuto;
  bool tensorboard = true;      // curves below run_dir/tb
  bool report = true;           // report.html and report.json, after evaluations and at the end
  double sample_seconds = 5.0;  // between samples of the host; 0: none
  bool details = true;          // TrainerOptions::details
};

// Every rank has one; the root's writes metrics and terminal, the others only their log.
class RunRecorder final : public TrainObserver {
 public:
  // Opens or creates the run directory (on the root) and the logs, beside which ranks whose
  // communication fails leave their last collectives; STATUS says "preparing" from here on.
  // `program` names a new directory below runs/. All ranks return the root's error.
  static StatusOr<std::unique_ptr<RunRecorder>> Open(const std::string& program,
                                                     const proto::RunConfig& run,
                                                     const google::protobuf::Message& config,
                                                     Runtime& runtime);
  // The same for a program with a configuration of its own, `config_text`: a setting a line, such
  // as "hidden_size: 64", is told where a resumed run changes it. It becomes run_dir/config.txt.
  static StatusOr<std::unique_ptr<RunRecorder>> Open(const std::string& program,
                                                     const RunRecorderOptions& options,
                                                     const std::string& config_text,
                                                     Runtime& runtime);
  ~RunRecorder() override;

  const std::string& path() const { return path_; }
  // Sets what the recorder has to say of them: `details`, and how long the run has been prepared.
  void Complete(TrainerOptions& options) const;
  void set_words(const RunWords& words) { words_ = words; }
  // A line for the terminal and the log.
  void Message(const std::string& line);
  // After resuming, before the first update: writes configuration and environment, which a command
  // that could not go on must not replace, and opens the metrics at the step the run goes on from
  // (0: from the start).
  Status Begin(const TrainState& restored);
  // The whole run: `train` prepares it, calls Begin(), trains, and is called once. The status file
  // says how it ended, also where it throws, before the exception goes on; a summary for people is
  // printed to stdout. Returns what `train` returned.
  StatusOr<TrainResult> Run(const std::function<StatusOr<TrainResult>()>& train);

  void OnStep(const StepRecord& record) override;
  void OnEvaluation(const EvaluationRecord& record) override;
  void OnEvent(int64_t step, const std::string& kind, const std::string& text) override;
  void BeforeCheckpoint() override;

 private:
  explicit RunRecorder(Runtime& runtime) : runtime_(runtime) {}
  Status OpenLog();
  // The text of the configuration, and a function that compares it with the one in a file.
  struct Configuration {
    std::string file;
    std::string text;
    std::function<std::string(const std::string& path)> changes_since;
  };
  static StatusOr<std::unique_ptr<RunRecorder>> OpenAll(const std::string& program,
                                                        const RunRecorderOptions& options,
                                                        const Configuration& config,
                                                        Runtime& runtime);
  Status OpenRoot(const std::string& program, const RunRecorderOptions& options,
                  const Configuration& config);
  Status Describe() const;
  // Trouble with the disk is told once and does not end a run that can still save checkpoints.
  void Check(const Status& status);
  void Heartbeat(const std::string& state);
  void End(const Status& status);
  void PrintSummary(const TrainResult& result) const;

  Runtime& runtime_;
  RunWords words_;
  std::string path_;
  struct ConfigFile {
    std::string file;
    std::string text;
  } config_;
  struct Resumed {
    int64_t step = 0;     // the step the run continues from; 0 for a new run
    std::string changes;  // of the configuration, since the run was last trained
  } resumed_;
  RunRecorderOptions options_;
  std::optional<RunDirectory> directory_;
  std::optional<RunRecords> records_;
  std::vector<JsonRecord> early_events_;  // of resuming, which comes before records_
  std::unique_ptr<Progress> progress_;
  Timer opened_;
  Timer last_heartbeat_;
  LogSink log_before_;  // what took the log's lines before this run; null: still does
  int64_t step_ = 0;
  bool warned_ = false;
  EvaluationHistory evaluations_;
  RepeatedWarnings repeated_warnings_;
  // The root's samples of its host.
  struct Sampling {
    std::vector<SampledRank> ranks;
    std::unique_ptr<HostSampler> sampler;
  } sampling_;
  // On the root, from Begin() on.
  struct Reporting {
    std::optional<ReportWriter> writer;
    bool is_written = false;  // at the end
  } reporting_;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUN_RECORDER_H_
