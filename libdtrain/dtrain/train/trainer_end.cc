// trainer_end.cc - why a run ends, and whether its last weights are worth keeping.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/train/trainer.h"

namespace dtrain {
namespace {

bool HasBrokenLoss(const EvaluationResult& result) {
  return result.Has("loss") && !std::isfinite(result.Metric("loss"));
}

}  // namespace

Status CheckEnds(const TrainerOptions& options) {
  const bool stops_early = options.early_stop.patience > 0 && !options.eval_every.never();
  if (options.max_steps > 0 || options.max_seconds > 0.0 || options.max_epochs > 0 || stops_early) {
    return OkStatus();
  }
  return UsageError(
      "this run would never end: set max_steps, max_seconds or max_epochs of its TrainerOptions, "
      "or early_stop.patience together with eval_every");
}

std::string Trainer::EndReason(const Requests& requests) const {
  if (requests.stop) return "stop requested";
  if (options_.max_steps > 0 && state_.step >= options_.max_steps) return "max_steps";
  if (options_.max_seconds > 0.0 && elapsed_ >= options_.max_seconds) return "max_time";
  if (options_.max_epochs > 0 && state_.position.epoch >= options_.max_epochs) return "max_epochs";
  const EarlyStopOptions& early = options_.early_stop;
  if (early.patience > 0 && state_.stalled_evaluations >= early.patience) return "early stop";
  return "";
}

bool Trainer::IsDoubtful() const {
  // One halving, or two, ends what a scale that grew too large has begun; one update by itself may
  // be an odd batch.
  const bool may_be_scale =
      options_.loss_scaler.on && state_.loss_scaler.scale > options_.loss_scaler.minimum;
  // Weights of a checkpoint that no update has changed here are as good as they were; those of a
  // new run nothing speaks for, but its scale may still be looked for.
  const bool is_unchanged = state_.optimizer_steps == restored_optimizer_steps_;
  const bool may_be_good = is_unchanged && (restored_optimizer_steps_ > 0 || may_be_scale);
  return skipped_in_a_row_ > (may_be_scale ? 2 : 1) && !may_be_good;
}

Status Trainer::Finish(const std::string& reason) {
  DT_RETURN_IF_ERROR(EndRound());
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  if (reason == "stop requested") {
    if (IsDoubtful()) return StopUnsaved();
    if (last_checkpoint_step_ != state_.step) DT_RETURN_IF_ERROR(SaveCheckpoint());
    if (options_.checkpoint_dir.empty()) {
      Event("stop", "stopped on request");
      return StoppedError(absl::StrFormat(
          "stopped on request at step %d; without checkpoint_dir nothing is saved", state_.step));
    }
    Event("stop", "stopped on request with a good checkpoint");
    return StoppedError(
        absl::StrFormat("stopped on request at step %d with a good checkpoint; the same command%s "
                        "goes on from there",
                        state_.step, GoesOnBy()));
  }
  // The last weights are worth an evaluation and a checkpoint of their own.
  // A checkpoint of a requested stop lacks the evaluation that was due with it.
  const bool is_saved =
      last_checkpoint_step_ == state_.step && state_.evaluated_step == state_.step;
  if (last_evaluation_step_ != state_.step) DT_RETURN_IF_ERROR(Evaluate(/*is_last=*/true));
  ctx_.set_training(false);
  const bool is_broken = IsDoubtful() ? !IsEvaluationFinite()
                                      : skipped_in_a_row_ > 0 && HasBrokenLoss(*last_evaluation_);
  if (!is_saved && is_broken) return EndsBroken(reason);
  if (!is_saved) DT_RETURN_IF_ERROR(SaveCheckpoint());
  Event("stop", "the run is complete: " + reason);
  if (comm_.AllReduceValue(stop_flags_ != nullptr && stop_flags_->stop ? 1 : 0, ReduceOp::kMax)) {
    const bool has_checkpoints = !options_.checkpoint_dir.empty();
    return StoppedError(absl::StrCat(
        "stopped on request before the test sets, if there are any; the training is complete",
        has_checkpoints
            ? absl::StrCat(" and saved, the same command", GoesOnBy(), " goes on with them")
            : ""));
  }
  return OkStatus();
}

// What the command of this run lacks to go on with it.
std::string Trainer::GoesOnBy() const {
  return resumed_from_ == "auto" ? "" : " with --resume=auto";
}

Status Trainer::StopUnsaved() {
  const std::string why = absl::StrFormat(
      "the last %d updates gave no finite gradients, so that nothing is saved of this step",
      skipped_in_a_row_);
  Event("stop", "stopped on request; " + why);
  return StoppedError(absl::StrFormat(
      "stopped on request at step %d; %s: the same command %s", state_.step, why,
      last_checkpoint_step_ < 0 ? "begins anew" : "goes on from the last checkpoint"));
}

Status Trainer::EndsBroken(const std::string& reason) {
  Event("stop", "the run ends by " + reason + ", but its last updates gave no finite gradients");
  return DivergedError(absl::StrFormat(
      "%s is reached, but the gradients of the last %d updates hold NaN or infinity (step %d), and "
      "so nothing is saved of them; %s",
      reason, skipped_in_a_row_, state_.step,
      state_.optimizer_steps == 0
          ? "no update was possible: look at the weights and the data that the run began with"
          : "resume from the last checkpoint with a lower optimizer.learning_rate or more "
            "optimizer.warmup_steps"));
}

}  // namespace dtrain
