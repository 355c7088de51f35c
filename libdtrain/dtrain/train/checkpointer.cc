// checkpointer.cc - from a checkpoint to all ranks, and from all ranks into a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/checkpointer.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/internal/checkpoint_files.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/train/internal/differing_lines.h"

namespace dtrain {
namespace {

using internal::DifferingLines;
using internal::kModelTextFile;
using internal::kTrainingDataFile;

// Older checkpoints do not have the text.
Status CheckModelText(const Checkpoint& checkpoint, const std::string& ours) {
  if (ours.empty() || !checkpoint.Has(kModelTextFile)) return OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(kModelTextFile));
  if (ours == theirs) return OkStatus();
  return StorageError(absl::StrFormat(
      "%s is of another model (%s there, %s here); use it with the configuration it was trained "
      "with, config.textproto beside it",
      checkpoint.path(), DifferingLines(theirs, ours), DifferingLines(ours, theirs)));
}

std::string Describe(const SampleOrder& order) {
  std::string text =
      order.shuffle ? absl::StrFormat("shuffled by seed %d", order.seed) : "as in the file";
  if (order.length_window == 0) return text;
  absl::StrAppendFormat(&text, ", length_window %d", order.length_window);
  const int64_t samples = order.samples_per_batch;
  if (samples > 0) absl::StrAppendFormat(&text, " with batches of %d samples", samples);
  const int64_t tokens = order.tokens_per_batch;
  if (tokens > 0) absl::StrAppendFormat(&text, " with batches of %d tokens", tokens);
  return text;
}

// A sentence if the epoch that has begun has another order than the task's next ones; else "".
std::string DescribeOrder(const std::optional<SampleOrder>& begun,
                          const std::optional<SampleOrder>& ours) {
  if (!begun || !ours || *begun == *ours) return "";
  return absl::StrFormat(
      "the epoch that has begun goes on in its order (%s), so that every sample comes once; the "
      "next ones have today's (%s)",
      Describe(*begun), Describe(*ours));
}

}  // namespace

Checkpointer::Checkpointer(TrainingTask& task, Communicator& comm, StepTimeline& timeline,
                           const TrainerOptions& options)
    : task_(task),
      identity_(task.identity()),
      comm_(comm),
      timeline_(timeline),
      options_(options) {}

StatusOr<std::string> Checkpointer::Load(const std::string& from, const Evaluator& evaluator,
                                         GradientStrategy& strategy, TrainObserver& observer,
                                         TrainState& state) {
  resumed_from_ = from;
  StatusOr<std::string> path = std::string();
  static_cast<void>(strategy.OnRoot([&] {
    path = LoadOnRoot(evaluator, strategy, observer, state);
    return path.status();
  }));
  DT_RETURN_IF_ERROR(ShareRestored(path.status(), task_.parameters(), strategy.optimizer(), state,
                                   comm_, strategy.shards()));
  return path;
}

StatusOr<std::string> Checkpointer::LoadOnRoot(const Evaluator& evaluator,
                                               GradientStrategy& strategy, TrainObserver& observer,
                                               TrainState& state) {
  const bool is_own = resumed_from_ == "auto";
  if (resumed_from_ == "never" || (is_own && !is_on())) return "";
  std::optional<Checkpoint> checkpoint;
  if (is_own) {
    DT_ASSIGN_OR_RETURN(checkpoint, FindLatestGood(options_.checkpoint_dir));
    if (!checkpoint) return "";
  } else {
    DT_ASSIGN_OR_RETURN(checkpoint, OpenCheckpoint(resumed_from_));
  }
  const CheckpointContents ours = task_.checkpoint();
  if (ours.check) DT_RETURN_IF_ERROR(ours.check(*checkpoint));
  DT_RETURN_IF_ERROR(CheckModelText(*checkpoint, identity_.model));
  DT_RETURN_IF_ERROR(RestoreCheckpoint(*checkpoint, task_.parameters(), strategy.optimizer(), state,
                                       strategy.shards()));
  DT_RETURN_IF_ERROR(AdoptTrainingData(*checkpoint, observer, state));
  evaluator.Adopt(is_own, observer, state);
  if (is_own) {
    PutAsideNewer(options_.checkpoint_dir, checkpoint->step());
    DT_RETURN_IF_ERROR(RestoreBestLink(evaluator, state));
  }
  return checkpoint->path();
}

Status Checkpointer::AdoptTrainingData(const Checkpoint& checkpoint, TrainObserver& observer,
                                       TrainState& state) const {
  if (!checkpoint.Has(kTrainingDataFile)) return OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(kTrainingDataFile));
  const std::string& ours = identity_.training_data;
  if (ours == theirs || ours.empty()) return OkStatus();
  if (resumed_from_ == "auto") {
    return StorageError(absl::StrFormat(
        "%s was trained on other data (%s there, %s here): give the run the data it began with, or "
        "train the model further on other data with a new --run_dir, by --init=%s (or --resume, if "
        "the program has no --init)",
        checkpoint.path(), DifferingLines(theirs, ours), DifferingLines(ours, theirs),
        checkpoint.path()));
  }
  state.position = {};
  state.epoch_count = {.from_step = state.step};  // epochs of these data begin here
  observer.OnEvent(state.step, recorded::kResumeEvent,
                   absl::StrFormat("the training data is not that of %s: its first epoch begins",
                                   checkpoint.path()));
  return OkStatus();
}

// A run that was killed right after a checkpoint may not have marked it as the best. A run that
// chose by another metric has marked others.
Status Checkpointer::RestoreBestLink(const Evaluator& evaluator, TrainState& state) const {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.checkpoint_dir, {.keep_last = options_.keep_last}));
  const std::string& ours = evaluator.best().metric();
  const std::string metric = ours.empty() ? state.best_metric_name : ours;
  // A best that is forgotten leaves its checkpoint: the mark of the next one would delete it.
  directory.KeepBestOnlyBy(state.best_step < 0 ? "" : metric);
  if (state.best_step < 0 || metric.empty()) return OkStatus();
  if (!directory.Has(state.best_step)) {
    // A later best one replaced it and was damaged since. The next evaluation counts.
    LogWarning(absl::StrFormat("the best checkpoint, of step %d, is gone; the best is chosen anew",
                               state.best_step));
    BestTracker::Forget(state);
    directory.KeepBestOnlyBy("");
    return OkStatus();
  }
  return directory.MarkBest(metric, state.best_step);
}

void Checkpointer::FinishResume(const std::string& path, const RunProgress& progress,
                                TrainObserver& observer) {
  const int64_t step = progress.step;
  const bool is_own = resumed_from_ == "auto";
  if (!is_own && comm_.is_root() && is_on()) {
    PutAsideNewer(options_.checkpoint_dir, resumed_from_ == "never" ? -1 : step);
  }
  if (step == 0) return;
  // A finished run that is started again has its checkpoint already. One that resumes from another
  // run has none of its own.
  if (is_own) last_step_ = step;
  if (!comm_.is_root()) return;
  observer.OnEvent(step, recorded::kResumeEvent, recorded::kGoingOn + path);
  const std::string order = DescribeOrder(progress.position.order, task_.epoch().order);
  if (!order.empty()) observer.OnEvent(step, recorded::kResumeEvent, order);
}

void Checkpointer::MarkDue(const PeriodClock& before, const PeriodClock& now, bool wanted) {
  const bool is_overdue = options_.checkpoint_seconds > 0.0 &&
                          now.seconds - last_seconds_ >= options_.checkpoint_seconds;
  is_due_ = is_due_ || wanted || is_overdue || PeriodPassed(options_.checkpoint_every, before, now);
}

Status Checkpointer::Save(const TrainState& state, const std::string& best_metric,
                          GradientStrategy& strategy, TrainObserver& observer) {
  is_due_ = false;
  last_seconds_ = state.seconds;
  if (!is_on()) return OkStatus();
  const auto span = timeline_.Enter(Phase::kCheckpoint, state.step);
  std::vector<CheckpointFile> more = strategy.CheckpointFiles();
  // The root waits for its whole device, on which ranks of its process may still record this
  // update.
  comm_.Barrier();
  const Status written = strategy.OnRoot(
      [&] { return WriteOnRoot(state, best_metric, std::move(more), strategy, observer); });
  DT_RETURN_IF_ERROR(ShareRootStatus(written, "write a checkpoint", comm_));
  last_step_ = state.step;
  return OkStatus();
}

Status Checkpointer::WriteOnRoot(const TrainState& state, const std::string& best_metric,
                                 std::vector<CheckpointFile> more, GradientStrategy& strategy,
                                 TrainObserver& observer) const {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.checkpoint_dir, {.keep_last = options_.keep_last}));
  std::vector<NamedFile> texts = task_.checkpoint().files;
  texts.push_back({kTrainingDataFile, identity_.training_data});
  texts.push_back({kModelTextFile, identity_.model});
  std::vector<CheckpointFile> files = MakeCheckpointFiles(
      state, task_.parameters(), strategy.optimizer(), texts, strategy.shards());
  std::move(more.begin(), more.end(), std::back_inserter(files));
  observer.BeforeCheckpoint();
  DT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, directory.Save(state.step, files, best_metric));
  observer.OnEvent(state.step, recorded::kCheckpointEvent,
                   absl::StrFormat("%s: %.1f MiB in %.2f s", saved.path,
                                   static_cast<double>(saved.bytes) / (1 << 20), saved.seconds));
  return OkStatus();
}

}  // namespace dtrain
