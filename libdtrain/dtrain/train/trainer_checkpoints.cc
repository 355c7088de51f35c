// trainer_checkpoints.cc - how a run is written to checkpoints and goes on from one.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/runs/internal/checkpoint_files.h"
#include "dtrain/train/trainer.h"

namespace dtrain {
namespace {

using internal::kModelTextFile;
using internal::kTrainingDataFile;

// The lines of `now` that are not in `there`: "pairs 500, checksum 1234abcd".
std::string DifferingLines(const std::string& now, const std::string& there) {
  const std::vector<std::string> known = absl::StrSplit(there, '\n');
  std::vector<std::string> differing;
  for (const absl::string_view line : absl::StrSplit(now, '\n', absl::SkipEmpty())) {
    if (std::find(known.begin(), known.end(), line) == known.end()) differing.emplace_back(line);
  }
  return absl::StrJoin(differing, ", ");
}

// Older checkpoints do not have it.
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

}  // namespace

Status Trainer::OnRoot(const std::function<Status()>& work) {
  if (!comm_.is_root()) {
    if (shards_) shards_->Serve(adam_);
    return OkStatus();
  }
  Status status = work();
  if (shards_) shards_->Dismiss();
  return status;
}

Status Trainer::Resume(const std::string& from) {
  resumed_from_ = from;
  StatusOr<std::string> path = std::string();
  static_cast<void>(OnRoot([&] { return (path = Load(from)).status(); }));
  DT_RETURN_IF_ERROR(BroadcastState(path.status()));
  PlanEnd();
  if (from != "auto" && from != "never") DT_RETURN_IF_ERROR(CheckLimits(from));
  // Those of another branch would count as the newest when old ones are deleted, or "auto" looks.
  if (from != "auto" && comm_.is_root() && !options_.checkpoint_dir.empty()) {
    PutAsideNewer(options_.checkpoint_dir, from == "never" ? -1 : state_.step);
  }
  // A complete run that is started again has its checkpoint already; one that goes on from another
  // run's has none of its own.
  if (from == "auto" && state_.step > 0) last_checkpoint_step_ = state_.step;
  if (state_.step > 0 && comm_.is_root()) {
    Event("resume", "going on from " + *path);
    TellOrder();
  }
  reducer_->SetStep(state_.step);
  return state_.step > 0 ? RestorePowerSgd(*path) : OkStatus();
}

void Trainer::TellOrder() {
  const std::optional<SampleOrder>& begun = state_.position.order;
  const std::optional<SampleOrder> ours = task_.sample_order();
  if (!begun || !ours || *begun == *ours) return;
  Event("resume",
        absl::StrFormat("the epoch that has begun goes on in its order (%s), so that every sample "
                        "comes once; the next ones have today's (%s)",
                        Describe(*begun), Describe(*ours)));
}

int64_t Trainer::EstimatedEnd() const {
  const EpochCount& count = state_.epoch_count;
  const double left = std::max(static_cast<double>(options_.max_epochs) - count.from_epochs, 0.0);
  // Not one more for what a sum of fractions has lost.
  const double updates = left * static_cast<double>(options_.updates_per_epoch) - 1e-6;
  const auto most = static_cast<double>(
      UpdatesOf(/*max_steps=*/0, options_.max_epochs, options_.updates_per_epoch));
  return count.from_step + static_cast<int64_t>(std::ceil(std::min(updates, most)));
}

void Trainer::PlanEnd() {
  const int64_t each = options_.updates_per_epoch;
  EpochCount& count = state_.epoch_count;
  const int64_t before = std::exchange(count.updates_per_epoch, each);
  const bool differs = state_.step > 0 && before > 0 && before != each;
  if (differs) {
    count.from_step = state_.step;
    count.from_epochs = task_.epochs();
  }
  if (each == 0 || options_.max_epochs == 0) return;
  // With batches of tokens epochs differ in updates.
  const std::optional<int64_t> all = task_.UpdatesUntil({}, options_.max_epochs);
  if (!all && count.from_step == 0) return;
  const std::optional<int64_t> left =
      state_.position == DataPosition() ? all
                                        : task_.UpdatesUntil(state_.position, options_.max_epochs);
  const int64_t end = left ? state_.step + *left : EstimatedEnd();
  const bool is_first = options_.max_steps == 0 || end < options_.max_steps;
  const int64_t planned = std::exchange(planned_end_, is_first ? end : options_.max_steps);
  int64_t& total = options_.learning_rate.total_steps;
  if (options_.is_rate_of_epochs && is_first) {
    total = all.value_or(UpdatesOf(/*max_steps=*/0, options_.max_epochs, each));
    rate_shift_ = end - total;
  } else if (total == planned) {
    total = planned_end_;
  }
  if (!differs || !comm_.is_root()) return;
  Event("resume", absl::StrFormat("an epoch has %d updates now, %d before: the run ends at about "
                                  "update %d, and with it a learning rate that falls to an end",
                                  each, before, planned_end_));
}

Status Trainer::CheckLimits(const std::string& checkpoint) const {
  const auto reached = [&](const std::string& limit, const std::string& used) {
    return UsageError(absl::StrFormat(
        "--resume=%s leaves nothing to train: trainer.%s, of which the checkpoint has %s, and what "
        "it has counts; raise the limit, or set another in its place",
        checkpoint, limit, used));
  };
  const bool has_new_data = state_.step > 0 && state_.position == DataPosition();
  const bool ends_by_epochs = options_.max_epochs > 0 && planned_end_ != options_.max_steps;
  if (options_.is_rate_of_epochs && ends_by_epochs && has_new_data) {
    return UsageError(absl::StrFormat(
        "--resume=%s: trainer.max_epochs counts from that run's first update, and the training "
        "data is another here. Start from its weights: `dtrain export-hf RUN FOLDER`, then "
        "model.pretrained=FOLDER without --resume; or go on with its schedule: "
        "trainer.max_epochs=0 trainer.max_steps=N, of which %d are done",
        checkpoint, state_.step));
  }
  if (options_.max_steps > 0 && state_.step >= options_.max_steps) {
    return reached(absl::StrFormat("max_steps gives %d updates", options_.max_steps),
                   absl::StrFormat("%d", state_.step));
  }
  if (options_.max_epochs > 0 && state_.position.epoch >= options_.max_epochs) {
    return reached(absl::StrFormat("max_epochs gives %d epochs", options_.max_epochs),
                   absl::StrFormat("%d", state_.position.epoch));
  }
  const int64_t end = options_.learning_rate.total_steps;
  if (FallsToAnEnd(options_.learning_rate.kind) && state_.step - rate_shift_ >= end) {
    return UsageError(absl::StrFormat(
        "--resume=%s: the learning rate falls to its least within %d updates, and the checkpoint "
        "has made %d; set optimizer.total_steps above what the two runs make together, or "
        "optimizer.schedule=constant",
        checkpoint, end + rate_shift_, state_.step));
  }
  if (options_.max_seconds > 0.0 && state_.seconds >= options_.max_seconds) {
    return reached(absl::StrFormat("max_time gives %g s", options_.max_seconds),
                   absl::StrFormat("%.1f s", state_.seconds));
  }
  return OkStatus();
}

StatusOr<std::string> Trainer::Load(const std::string& from) {
  if (from == "never" || (from == "auto" && options_.checkpoint_dir.empty())) return "";
  std::optional<Checkpoint> checkpoint;
  if (from == "auto") {
    DT_ASSIGN_OR_RETURN(checkpoint, FindLatestGood(options_.checkpoint_dir));
    if (!checkpoint) return "";
  } else {
    DT_ASSIGN_OR_RETURN(checkpoint, OpenCheckpoint(from));
  }
  DT_RETURN_IF_ERROR(task_.CheckCheckpoint(*checkpoint));
  DT_RETURN_IF_ERROR(CheckModelText(*checkpoint, task_.ModelText()));
  DT_RETURN_IF_ERROR(
      RestoreCheckpoint(*checkpoint, task_.parameters(), adam_, state_, shards_.get()));
  DT_RETURN_IF_ERROR(AdoptTrainingData(*checkpoint, /*is_own=*/from == "auto"));
  AdoptMetrics(/*is_own=*/from == "auto");
  if (from == "auto") {
    AdoptEvaluation();
    PutAsideNewer(options_.checkpoint_dir, checkpoint->step());
    DT_RETURN_IF_ERROR(RestoreBestLink());
  } else {
    ForgetBest();
    ForgetEarlyStop();
  }
  return checkpoint->path();
}

// A run that was killed just behind a checkpoint may not have marked it; one that chose by another
// metric has marked others.
Status Trainer::RestoreBestLink() {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.checkpoint_dir, {.keep_last = options_.keep_last}));
  // A best that is forgotten leaves its checkpoint: the next one's mark would move away from it.
  directory.KeepBestOnlyBy(state_.best_step < 0 ? "" : options_.best_metric);
  if (state_.best_step < 0 || options_.best_metric.empty()) return OkStatus();
  if (!directory.Has(state_.best_step)) {
    // Deleted when a later one became the best, which was damaged since: the next one counts.
    LogWarning(absl::StrFormat("the best checkpoint, of step %d, is gone; the best is chosen anew",
                               state_.best_step));
    ForgetBest();
    directory.KeepBestOnlyBy("");
    return OkStatus();
  }
  return directory.MarkBest(options_.best_metric, state_.best_step);
}

Status Trainer::AdoptTrainingData(const Checkpoint& checkpoint, bool is_own) {
  if (!checkpoint.Has(kTrainingDataFile)) return OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string theirs, checkpoint.ReadText(kTrainingDataFile));
  const std::string ours = task_.TrainingData();
  if (ours == theirs || ours.empty()) return OkStatus();
  if (is_own) {
    return StorageError(absl::StrFormat(
        "%s was trained on other data (%s there, %s here): give the run the data it began with, or "
        "train the model further on other data by --resume=%s with a new --run_dir",
        checkpoint.path(), DifferingLines(theirs, ours), DifferingLines(ours, theirs),
        checkpoint.path()));
  }
  state_.position = {};
  state_.epoch_count = {.from_step = state_.step};  // its epochs begin here
  Event("resume", absl::StrFormat("the training data is not that of %s: its first epoch begins",
                                  checkpoint.path()));
  return OkStatus();
}

void Trainer::AdoptMetrics(bool is_own) {
  // A name that no evaluation gave a value is none to stay with.
  const auto choose = [is_own](std::string& here, std::string& there, int64_t best_step) {
    if (!here.empty()) return;
    if (is_own && best_step >= 0) here = there;
    there = here;
  };
  choose(options_.best_metric, state_.best_metric_name, state_.best_step);
  choose(options_.early_stop.metric, state_.early_stop_metric_name, state_.early_stop_step);
  const auto differs = [&](const std::string& kind, const std::string& there,
                           const std::string& here) {
    if (there.empty() || there == here) return false;
    Event("resume",
          absl::StrFormat("%s looks at %s from here on, no longer at %s", kind, here, there));
    return true;
  };
  if (differs("the choice of the best checkpoint", state_.best_metric_name, options_.best_metric)) {
    ForgetBest();
  }
  if (differs("early stopping", state_.early_stop_metric_name, options_.early_stop.metric)) {
    ForgetEarlyStop();
  }
}

void Trainer::AdoptEvaluation() {
  const std::string& there = state_.evaluation;
  const std::string here = task_.EvaluationContract();
  if (there.empty() || here.empty() || there == here) return;
  Event("resume",
        absl::StrFormat("evaluations measure otherwise from here on (%s before, %s now): the best "
                        "checkpoint and early stopping begin anew",
                        DifferingLines(there, here), DifferingLines(here, there)));
  ForgetBest();
  ForgetEarlyStop();
}

void Trainer::ForgetBest() {
  state_.best_metric = 0.0;
  state_.best_step = -1;
  // A complete run's last weights are measured, and may be the best, once more.
  state_.evaluated_step = -1;
}

void Trainer::ForgetEarlyStop() {
  state_.early_stop_best = 0.0;
  state_.early_stop_step = -1;
  state_.stalled_evaluations = 0;
}

Status Trainer::BroadcastState(const Status& loaded) {
  DT_RETURN_IF_ERROR(
      ShareRestored(loaded, task_.parameters(), adam_, state_, comm_, shards_.get()));
  if (options_.best_metric.empty()) options_.best_metric = state_.best_metric_name;
  if (options_.early_stop.metric.empty()) {
    options_.early_stop.metric = state_.early_stop_metric_name;
  }
  state_.best_metric_name = options_.best_metric;
  state_.early_stop_metric_name = options_.early_stop.metric;
  state_.evaluation = task_.EvaluationContract();
  adam_.set_steps(restored_optimizer_steps_ = state_.optimizer_steps);
  state_.loss_scaler = RestoreLossScale(options_.loss_scaler, state_.loss_scaler);
  step_.Reset(state_.loss_scaler, state_.optimizer_steps, ctx_.stream());
  DT_RETURN_IF_ERROR(task_.Seek(state_.position));
  resumed_seconds_ = state_.seconds;
  return OkStatus();
}

Status Trainer::SaveCheckpoint() {
  checkpoint_due_ = false;
  last_checkpoint_ = elapsed_;
  if (options_.checkpoint_dir.empty()) return OkStatus();
  const Timeline::Span span = Enter(Phase::kCheckpoint, state_.step);
  std::vector<CheckpointFile> more;
  if (const internal::PowerSgdMemory* const memory = reducer_->power_sgd_memory()) {
    more.push_back(internal::GatherMemory(*memory, comm_));
  }
  // The root waits for its whole device, on which ranks of its process may yet record this update.
  comm_.Barrier();
  DT_RETURN_IF_ERROR(ShareRootStatus(OnRoot([&] { return WriteCheckpoint(std::move(more)); }),
                                     "write a checkpoint", comm_));
  last_checkpoint_step_ = state_.step;
  return OkStatus();
}

Status Trainer::WriteCheckpoint(std::vector<CheckpointFile> more) {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.checkpoint_dir, {.keep_last = options_.keep_last}));
  std::vector<NamedFile> texts = task_.CheckpointFiles();
  texts.push_back({kTrainingDataFile, task_.TrainingData()});
  texts.push_back({kModelTextFile, task_.ModelText()});
  std::vector<CheckpointFile> files =
      MakeCheckpointFiles(state_, task_.parameters(), adam_, texts, shards_.get());
  std::move(more.begin(), more.end(), std::back_inserter(files));
  // A run that goes on from this one tells nothing of before once more.
  if (observer_ != nullptr) observer_->BeforeCheckpoint();
  DT_ASSIGN_OR_RETURN(
      const SavedCheckpoint saved,
      directory.Save(state_.step, files,
                     state_.best_step == state_.step ? options_.best_metric : std::string()));
  Event("checkpoint", absl::StrFormat("%s: %.1f MiB in %.2f s", saved.path,
                                      static_cast<double>(saved.bytes) / (1 << 20), saved.seconds));
  return OkStatus();
}

}  // namespace dtrain
