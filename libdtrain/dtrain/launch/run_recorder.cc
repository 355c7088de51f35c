// run_recorder.cc - the observer that fills the run directory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/file.h"
#include "dtrain/base/host.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/comm/flight_records.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/config/config.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/version.h"
#include "dtrain/report/run_facts.h"
#include "dtrain/report/write_report.h"
#include "dtrain/run.pb.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

constexpr double kHeartbeatSeconds = 5.0;

// "runs/nmt_train-20261121-0915" in the current directory.
std::string NewRunPath(const std::string& program) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return absl::StrCat("runs/", program, "-", text.data());
}

ProgressStyle StyleOf(proto::RunConfig::Progress progress) {
  switch (progress) {
    case proto::RunConfig::auto_:
      return ProgressStyle::kAuto;
    case proto::RunConfig::bar:
      return ProgressStyle::kBar;
    case proto::RunConfig::plain:
      return ProgressStyle::kPlain;
    case proto::RunConfig::none:
      return ProgressStyle::kNone;
  }
  return ProgressStyle::kAuto;
}

// The ranks on the host of this one, and their processes.
std::vector<SampledRank> RanksOfThisHost(Communicator& comm) {
  const std::vector<std::string> hosts = AllGatherStrings(comm, HostName());
  const std::vector<pid_t> processes = AllGather(comm, ::getpid());
  std::vector<SampledRank> ranks;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == HostName()) ranks.push_back({static_cast<int>(i), processes[i]});
  }
  return ranks;
}

// The command line as it is typed: cmdline.txt and advice are to be run again.
std::vector<std::string> LaunchCommand(const Runtime& runtime) {
  std::vector<std::string> command;
  if (runtime.comm.size() > 1) {
    command = {"mpirun", "-n", absl::StrCat(runtime.comm.size())};
  }
  command.insert(command.end(), runtime.arguments.begin(), runtime.arguments.end());
  return command;
}

// "950", "12.34 M".
std::string FormatCount(int64_t count) {
  return count < 100000 ? absl::StrCat(count)
                        : absl::StrFormat("%.2f M", static_cast<double>(count) / 1e6);
}

std::string FormatMetrics(const EvaluationResult& result) {
  std::string line;
  for (const auto& [name, value] : result.metrics) {
    const int decimals = name == "bleu" || name == "chrf" ? 2 : 4;
    absl::StrAppend(&line, "  ", Printable(name), " ", FormatNumber(value, decimals));
  }
  return line;
}

ResumePolicy PolicyOf(const std::string& resume) {
  if (resume == "auto") return ResumePolicy::kAuto;
  return resume == "never" ? ResumePolicy::kNever : ResumePolicy::kFromElsewhere;
}

// Where a run goes on from, how far, and what it shows: nothing that its updates depend on.
bool IsAside(const std::string& key) {
  constexpr std::array<std::string_view, 10> kAside = {
      "trainer.max_steps",          "trainer.max_time",
      "trainer.max_epochs",         "trainer.log_every",
      "trainer.eval_every",         "trainer.checkpoint_every",
      "trainer.checkpoint_minutes", "trainer.keep_last",
      "trainer.timeline",           "kernels.plan_dir"};
  // A key without a section is of a program that has no more than RunConfig.
  return key.find('.') == std::string::npos || key.starts_with("run.") ||
         key.starts_with("predict.") ||
         std::find(kAside.begin(), kAside.end(), key) != kAside.end();
}

// "model.dropout: 0.1 -> 0.2, ...": what is set otherwise than in the file; "" where nothing is, or
// there is no such file, or one of another version.
std::string ChangesSince(const std::string& file, const google::protobuf::Message& config) {
  constexpr size_t kShown = 10;
  const std::unique_ptr<google::protobuf::Message> before(config.New());
  if (!MergeConfigFile(file, *before).ok()) return "";
  std::vector<std::string> changes;
  for (const std::string& key : ConfigKeys(*config.GetDescriptor())) {
    const std::string there = DefaultText(*before, key);
    const std::string here = DefaultText(config, key);
    if (there == here || IsAside(key)) continue;
    changes.push_back(absl::StrFormat("%s: %s -> %s", key, there, here));
  }
  const size_t more = changes.size() - std::min(changes.size(), kShown);
  changes.resize(changes.size() - more);
  return absl::StrCat(absl::StrJoin(changes, ", "),
                      more > 0 ? absl::StrFormat(", and %d more", more) : "");
}

// A note may be a table.
std::vector<std::string> LinesOf(const std::string& note) {
  return absl::StrSplit(note, '\n', absl::SkipEmpty());
}

// The lines of `text` that are not in `other`, in a row.
std::string LinesNotIn(const std::string& other, const std::string& text) {
  const std::vector<std::string> known = absl::StrSplit(other, '\n');
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (std::find(known.begin(), known.end(), line) == known.end()) lines.emplace_back(line);
  }
  return absl::StrJoin(lines, ", ");
}

// "updates: 200 (before: updates: 100)"; "" where nothing differs or there is no such file.
std::string ChangedLines(const std::string& file, const std::string& text) {
  const StatusOr<std::string> before = ReadWholeFile(file);
  if (!before.ok()) return "";
  const std::string here = LinesNotIn(*before, text);
  const std::string there = LinesNotIn(text, *before);
  if (here.empty() && there.empty()) return "";
  return absl::StrFormat("%s (before: %s)", here.empty() ? "fewer" : here,
                         there.empty() ? "nothing of them" : there);
}

// Shows the first samples on the terminal, cut to its width, and writes them to the log.
void ShowSamples(const std::vector<EvaluationSample>& samples, Progress* progress) {
  constexpr size_t kShown = 5;
  const auto show = [&](const char* title, const std::string& text) {
    const std::string line = title + Printable(text, text.size() * 6);
    LogInfo(line);
    if (progress != nullptr) progress->Message(CutToColumns(line, progress->columns()));
  };
  for (size_t i = 0; i < std::min(samples.size(), kShown); ++i) {
    show("  source      ", samples[i].source);
    show("  reference   ", samples[i].reference);
    show("  hypothesis  ", samples[i].hypothesis);
  }
}

// Returns the error of a run that could not continue from its checkpoint. If settings of the model
// changed since then, the error names them.
Status ExplainChanges(const Status& status, const std::string& path, const std::string& changes) {
  const bool is_other_model = changes.find("model.") != std::string::npos &&
                              status.message().find("damaged") == std::string_view::npos;
  if (!is_other_model || status.code() != ExitCode::kStorage) return status;
  return UsageError(absl::StrCat(path, " holds a run with other settings (", changes,
                                 "): choose another --run_dir, or set them back; ",
                                 status.message()));
}

}  // namespace

StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Open(const std::string& program,
                                                         const proto::RunConfig& run,
                                                         const google::protobuf::Message& config,
                                                         Runtime& runtime) {
  const auto changes_since = [&](const std::string& path) { return ChangesSince(path, config); };
  return OpenAll(program,
                 {.run_dir = run.run_dir(),
                  .resume = run.resume(),
                  .progress = StyleOf(run.progress()),
                  .tensorboard = run.tensorboard(),
                  .report = run.report(),
                  .sample_seconds = run.sample_seconds(),
                  .details = run.details()},
                 {"config.textproto", PrintConfig(config, ConfigFormat::kFull), changes_since},
                 runtime);
}

StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Open(const std::string& program,
                                                         const RunRecorderOptions& options,
                                                         const std::string& config_text,
                                                         Runtime& runtime) {
  const auto changes_since = [&](const std::string& path) {
    return ChangedLines(path, config_text);
  };
  return OpenAll(program, options, {"config.txt", config_text, changes_since}, runtime);
}

StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::OpenAll(const std::string& program,
                                                            const RunRecorderOptions& options,
                                                            const Configuration& config,
                                                            Runtime& runtime) {
  std::unique_ptr<RunRecorder> recorder(new RunRecorder(runtime));
  recorder->options_ = options;
  recorder->path_ = BroadcastString(
      runtime.comm, options.run_dir.empty() ? NewRunPath(program) : options.run_dir);
  const Status opened =
      runtime.comm.is_root() ? recorder->OpenRoot(program, options, config) : OkStatus();
  DT_RETURN_IF_ERROR(ShareRootStatus(opened, "open the run directory", runtime.comm));
  const Status logged = recorder->OpenLog();
  if (!logged.ok()) {
    recorder->End(logged);
    return logged;
  }
  RecordsOf(runtime.comm)->SetDefaultDirectory(recorder->path_ + "/logs");
  recorder->sampling_.ranks = RanksOfThisHost(runtime.comm);
  return recorder;
}

// Lines of the next run are not of this one's log.
RunRecorder::~RunRecorder() {
  if (log_before_) SetLogSink(log_before_);
}

Status RunRecorder::OpenLog() {
  LogSink before = SetLogSink(nullptr);
  SetLogSink(before);
  DT_RETURN_IF_ERROR(runtime_.OpenLog(path_));
  log_before_ = std::move(before);
  return OkStatus();
}

Status RunRecorder::OpenRoot(const std::string& program, const RunRecorderOptions& options,
                             const Configuration& config) {
  DT_ASSIGN_OR_RETURN(RunDirectory directory,
                      RunDirectory::Open({.path = path_,
                                          .resume = PolicyOf(options.resume),
                                          .program = program,
                                          .arguments = LaunchCommand(runtime_),
                                          .tensorboard = options.tensorboard}));
  directory_.emplace(std::move(directory));
  // Data and weights may take minutes, and what stands there is of the run before.
  step_ = directory_->last_checkpoint();
  Heartbeat("preparing");
  config_.file = config.file;
  config_.text = config.text;
  if (directory_->is_resumed()) resumed_.changes = config.changes_since(path_ + "/" + config_.file);
  // The trainer reports every log_every updates already.
  progress_ =
      std::make_unique<Progress>(ProgressOptions{.style = options.progress, .log_every = 1});
  return OkStatus();
}

Status RunRecorder::Describe() const {
  DT_RETURN_IF_ERROR(directory_->WriteConfig(config_.text, config_.file));
  JsonRecord environment = CollectEnvironment();
  environment.Set("dtrain", BuildDescription())
      .Set("mpi", runtime_.mpi)
      .Set("ranks", runtime_.comm.size())
      .Set("threads_per_rank", runtime_.threads)
      .Set("device", DeviceName(runtime_.device));
  return directory_->WriteEnvironment(environment);
}

void RunRecorder::Complete(TrainerOptions& options) const {
  options.details = options_.details;
  options.startup_seconds = opened_.Seconds();
}

void RunRecorder::Message(const std::string& line) {
  LogInfo(line);
  if (progress_) progress_->Message(line);
}

Status RunRecorder::Begin(const TrainState& restored) {
  const int64_t restored_step = restored.step;
  step_ = resumed_.step = restored_step;
  if (!directory_) return OkStatus();
  DT_RETURN_IF_ERROR(Describe());
  DT_ASSIGN_OR_RETURN(
      RunMetrics metrics,
      directory_->OpenMetrics(
          directory_->is_resumed() ? std::optional<int64_t>(restored_step) : std::nullopt,
          restored.evaluation_due));
  records_.emplace(*directory_, std::move(metrics));
  for (const JsonRecord& event : early_events_) Check(records_->WriteEvent(event));
  early_events_.clear();
  if (restored_step > 0 && !resumed_.changes.empty()) {
    OnEvent(restored_step, recorded::kResumeEvent,
            "settings differ from here on: " + resumed_.changes);
  }
  if (restored_step == 0) {
    if (directory_->is_resumed()) {
      LogWarning(path_ + ": an earlier run left no checkpoint here; this one begins anew");
    }
    OnEvent(0, recorded::kStartEvent, absl::StrFormat("ranks: %d", runtime_.comm.size()));
  }
  if (options_.sample_seconds > 0.0) {
    sampling_.sampler = HostSampler::Start(RecordsPath(path_, recorded::kHost), sampling_.ranks,
                                           options_.sample_seconds);
  }
  if (options_.report) {
    reporting_.writer.emplace([run = path_, defaults = ParseSettings(runtime_.default_config)] {
      return WriteReport(run, {.defaults = defaults});
    });
  }
  Heartbeat("running");
  return OkStatus();
}

void RunRecorder::OnStep(const StepRecord& record) {
  step_ = record.step;
  if (progress_) {
    progress_->Update({.step = record.step,
                       .max_steps = record.max_steps,
                       .loss = record.loss,
                       .has_perplexity = words_.has_perplexity,
                       .nll = record.nll,
                       .gradient_norm = record.gradient_norm,
                       .learning_rate = record.learning_rate,
                       .step_seconds = record.step_seconds,
                       .data_fraction = record.data_share,
                       .comm_fraction = record.comm_share,
                       .tokens_per_second = record.target_tokens_per_second,
                       .seconds_left = record.eta_seconds >= 0.0
                                           ? std::optional<double>(record.eta_seconds)
                                           : std::nullopt,
                       .seconds = record.seconds,
                       .max_seconds = record.max_seconds});
  }
  evaluations_.AddUpdates(record);
  if (!records_) return;
  Check(records_->WriteStep(record, words_.has_perplexity));
  if (last_heartbeat_.Seconds() > kHeartbeatSeconds) Heartbeat("running");
}

void RunRecorder::OnEvaluation(const EvaluationRecord& record) {
  step_ = record.step;
  const EvaluationResult& result = *record.result;
  if (result.metrics.empty()) return;  // there is no dev set
  repeated_warnings_.End();
  Message(absl::StrFormat("eval @%d%s%s  (%.1f s)", record.step, FormatMetrics(result),
                          record.is_news ? "  best" : "", result.seconds));
  ShowSamples(result.samples, progress_.get());
  const std::string warning = evaluations_.AddEvaluation(record);
  if (directory_ && !warning.empty()) LogWarning(warning);
  if (records_) Heartbeat("running");
  if (!records_ || record.is_repeated) return;
  for (const std::string& note : result.notes) {
    for (const std::string& line : LinesOf(note)) LogInfo(line);
  }
  Check(records_->WriteEvaluation(record));
  if (options_.details) Check(records_->WriteRows(record));
  if (reporting_.writer) reporting_.writer->WriteSoon();
}

void RunRecorder::OnEvent(int64_t step, const std::string& kind, const std::string& text) {
  step_ = step;
  const std::string line = absl::StrFormat("%s @%d: %s", kind, step, text);
  if (kind == "skip") {
    repeated_warnings_.Warn(step, kind, line);
  } else {
    repeated_warnings_.End();
    // The last progress line belongs before the end.
    if (kind == recorded::kStopEvent && progress_) progress_->Finish();
    Message(line);
  }
  if (!directory_) return;
  JsonRecord event;
  event.Set(recorded::kStep, step).Set(recorded::kKind, kind).Set(recorded::kText, text);
  event.Set(recorded::kTime, SecondsSince1970());
  if (kind == recorded::kStartEvent || kind == recorded::kResumeEvent) {
    event.Set(recorded::kRanks, runtime_.comm.size());
  }
  if (!records_) {
    early_events_.push_back(std::move(event));
    return;
  }
  Check(records_->WriteEvent(event));
  if (kind == recorded::kCheckpointEvent) Check(records_->Flush());
}

void RunRecorder::BeforeCheckpoint() {
  if (!records_) return;
  Check(records_->Flush());
  Heartbeat("running");
}

void RunRecorder::Heartbeat(const std::string& state) {
  last_heartbeat_.Restart();
  if (directory_) Check(directory_->WriteStatus({.state = state, .step = step_}));
}

void RunRecorder::Check(const Status& status) {
  if (status.ok() || warned_) return;
  warned_ = true;
  LogWarning(absl::StrCat("metrics are incomplete from here on: ", status.message()));
}

StatusOr<TrainResult> RunRecorder::Run(const std::function<StatusOr<TrainResult>()>& train) {
  try {
    StatusOr<TrainResult> result = train();
    if (!result.ok() && !records_) {
      result = ExplainChanges(result.status(), path_, resumed_.changes);
    }
    if (result.ok() && records_ && result->test_evaluation &&
        !result->test_evaluation->metrics.empty()) {
      Check(records_->WriteTest(result->state.step, *result->test_evaluation));
    }
    End(result.status());
    if (result.ok() && directory_) PrintSummary(*result);
    return result;
  } catch (const std::exception& error) {
    End(Status(ExitCodeOfException(error), error.what()));
    throw;
  }
}

void RunRecorder::End(const Status& status) {
  repeated_warnings_.End();
  sampling_.sampler.reset();
  if (records_) Check(records_->Flush());
  if (progress_) progress_->Finish();
  if (!directory_) return;
  const ExitCode code = status.code();
  Check(directory_->WriteStatus({.state = status.ok()                  ? "done"
                                          : code == ExitCode::kStopped ? "stopped"
                                                                       : "failed",
                                 .exit_code = code,
                                 .step = step_,
                                 .message = std::string(status.message())}));
  // The page says how the run ended.
  if (reporting_.writer) reporting_.is_written = reporting_.writer->WriteNow();
}

void RunRecorder::PrintSummary(const TrainResult& result) const {
  const TrainState& state = result.state;
  std::string text =
      absl::StrFormat("\ndone (%s): %d updates, %s %s in %s\n", Name(result.reason), state.step,
                      FormatCount(state.target_tokens), words_.unit, FormatDuration(state.seconds));
  const auto add = [&](const char* title, const std::optional<EvaluationResult>& evaluation,
                       const std::string& remark) {
    if (!evaluation || evaluation->metrics.empty()) return;
    absl::StrAppend(&text, title, FormatMetrics(*evaluation), remark, "\n");
    for (const std::string& note : evaluation->notes) {
      for (const std::string& line : LinesOf(note)) {
        absl::StrAppend(&text, "           ", line, "\n");
      }
    }
  };
  // People copy the table at the end: it is that of the checkpoint which other commands use.
  const bool best_is_other = state.best_step >= 0 && state.best_step != state.step;
  const EvaluationResult* const best = evaluations_.BestAt(state.best_step);
  if (best_is_other && best != nullptr) {
    add("best     ", *best, absl::StrFormat("  (update %d)", state.best_step));
    const std::string of_last = absl::StrFormat("  (update %d, the last)", state.step);
    std::optional<EvaluationResult> last = result.last_evaluation;
    if (last) last->notes.clear();
    add("last     ", last, of_last);
    add("test     ", result.test_evaluation, of_last);
  } else {
    add("dev      ", result.last_evaluation, "");
    add("test     ", result.test_evaluation, "");
    if (state.best_step >= 0) {
      absl::StrAppendFormat(&text, "best       %s at update %d%s\n",
                            FormatNumber(state.best_metric, 4), state.best_step,
                            best_is_other ? "; the lines above are of the last" : "");
    }
  }
  if (evaluations_.EndsWithBest()) {
    absl::StrAppend(&text,
                    "note       still improving at the end: the last evaluation is the best; train "
                    "longer for a better model\n");
  }
  if (resumed_.step > 0 && state.step == resumed_.step) {
    absl::StrAppend(
        &text, "note       this run was complete already; to go on, raise its limit (", words_.keys,
        result.reason == EndReason::kEarlyStop ? "early_stop.patience" : Name(result.reason),
        "); to start anew, give another run directory\n");
  }
  // Also those of an earlier process; most programs have none.
  std::error_code error;
  const bool has_samples = !std::filesystem::is_empty(path_ + "/samples", error) && !error;
  absl::StrAppend(&text, "run      ", path_, " (checkpoints in ckpt/",
                  has_samples ? ", samples in samples/)\n" : ")\n");
  if (options_.tensorboard) {
    absl::StrAppend(&text, "curves   tensorboard --logdir ", ShellQuote(path_ + "/tb"), "\n");
  }
  if (reporting_.is_written) {
    absl::StrAppend(&text, "report   ", path_, "/report.html\n");
  }
  if (!words_.advice.empty()) {
    absl::StrAppend(&text, words_.advice, " ", ShellQuote(path_), "\n");
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace dtrain
