// run_plan.cc - limits in updates, epochs and time, turned into an end that is known beforehand.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/run_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"

namespace dtrain {
namespace {

Status LimitReached(const std::string& checkpoint, const std::string& limit,
                    const std::string& used) {
  return UsageError(absl::StrFormat(
      "--resume=%s leaves nothing to train: trainer.%s, of which the checkpoint has %s, and what "
      "it has counts; raise the limit, or set another in its place",
      checkpoint, limit, used));
}

}  // namespace

RunPlan::RunPlan(const TrainerOptions& options)
    : options_(options),
      learning_rate_(options.learning_rate),
      planned_end_(UpdatesOf(options.max_steps, options.max_epochs, options.updates_per_epoch)) {
  CheckSchedule(options.learning_rate);
  DT_CHECK(options.learning_rate.kind != LrScheduleOptions::Kind::kLinearBudget ||
           options.max_seconds > 0.0)
      << "a learning rate that falls with the time needs max_seconds";
}

int64_t RunPlan::EstimatedEnd() const {
  const double left =
      std::max(static_cast<double>(options_.max_epochs) - epoch_count_.from_epochs, 0.0);
  // Rounding errors of the sum must not add an update.
  const double updates = left * static_cast<double>(options_.updates_per_epoch) - 1e-6;
  const auto most = static_cast<double>(
      UpdatesOf(/*max_steps=*/0, options_.max_epochs, options_.updates_per_epoch));
  return epoch_count_.from_step + static_cast<int64_t>(std::ceil(std::min(updates, most)));
}

std::string RunPlan::PlanEnd(const RunProgress& progress, const UpdatesUntil& updates_until) {
  const int64_t each = options_.updates_per_epoch;
  const int64_t before = std::exchange(epoch_count_.updates_per_epoch, each);
  const bool differs = progress.step > 0 && before > 0 && before != each;
  if (differs) {
    epoch_count_.from_step = progress.step;
    epoch_count_.from_epochs = progress.epochs;
  }
  if (each == 0 || options_.max_epochs == 0) return "";
  // Epochs of batches limited by tokens differ in their updates.
  const auto count = [&](const DataPosition& from) -> std::optional<int64_t> {
    return updates_until ? updates_until(from, options_.max_epochs) : std::nullopt;
  };
  const std::optional<int64_t> all = count({});
  if (!all && epoch_count_.from_step == 0) return "";
  const std::optional<int64_t> left =
      progress.position == DataPosition() ? all : count(progress.position);
  const int64_t end = left ? progress.step + *left : EstimatedEnd();
  const bool is_first = options_.max_steps == 0 || end < options_.max_steps;
  const int64_t planned = std::exchange(planned_end_, is_first ? end : options_.max_steps);
  int64_t& total = learning_rate_.total_steps;
  if (options_.is_rate_of_epochs && is_first) {
    total = all.value_or(UpdatesOf(/*max_steps=*/0, options_.max_epochs, each));
    rate_shift_ = end - total;
  } else if (total == planned) {
    total = planned_end_;
  }
  if (!differs) return "";
  return absl::StrFormat(
      "an epoch has %d updates now, %d before: the run ends at about update %d, and with it a "
      "learning rate that falls to an end",
      each, before, planned_end_);
}

Status RunPlan::CheckLimits(const std::string& checkpoint, const RunProgress& progress) const {
  const int64_t step = progress.step;
  const bool has_new_data = step > 0 && progress.position == DataPosition();
  const bool ends_by_epochs = options_.max_epochs > 0 && planned_end_ != options_.max_steps;
  if (options_.is_rate_of_epochs && ends_by_epochs && has_new_data) {
    return UsageError(absl::StrFormat(
        "--resume=%s: trainer.max_epochs counts from that run's first update, and the training "
        "data is another here. Start from its weights: `dtrain export-hf RUN FOLDER`, then "
        "model.pretrained=FOLDER without --resume; or go on with its schedule: "
        "trainer.max_epochs=0 trainer.max_steps=N, of which %d are done",
        checkpoint, step));
  }
  if (options_.max_steps > 0 && step >= options_.max_steps) {
    return LimitReached(checkpoint,
                        absl::StrFormat("max_steps gives %d updates", options_.max_steps),
                        absl::StrFormat("%d", step));
  }
  if (options_.max_epochs > 0 && progress.position.epoch >= options_.max_epochs) {
    return LimitReached(checkpoint,
                        absl::StrFormat("max_epochs gives %d epochs", options_.max_epochs),
                        absl::StrFormat("%d", progress.position.epoch));
  }
  const int64_t end = learning_rate_.total_steps;
  if (FallsToAnEnd(learning_rate_.kind) && step - rate_shift_ >= end) {
    return UsageError(absl::StrFormat(
        "--resume=%s: the learning rate falls to its least within %d updates, and the checkpoint "
        "has made %d; set optimizer.total_steps above what the two runs make together, or "
        "optimizer.schedule=constant",
        checkpoint, end + rate_shift_, step));
  }
  if (options_.max_seconds > 0.0 && progress.seconds >= options_.max_seconds) {
    return LimitReached(checkpoint, absl::StrFormat("max_time gives %g s", options_.max_seconds),
                        absl::StrFormat("%.1f s", progress.seconds));
  }
  return OkStatus();
}

std::optional<EndReason> RunPlan::ReachedLimit(const RunProgress& progress) const {
  if (options_.max_steps > 0 && progress.step >= options_.max_steps) return EndReason::kMaxSteps;
  if (options_.max_seconds > 0.0 && progress.seconds >= options_.max_seconds) {
    return EndReason::kMaxTime;
  }
  if (options_.max_epochs > 0 && progress.position.epoch >= options_.max_epochs) {
    return EndReason::kMaxEpochs;
  }
  return std::nullopt;
}

double RunPlan::LearningRateAt(int64_t step, double seconds) const {
  const double budget_used = options_.max_seconds > 0.0 ? seconds / options_.max_seconds : 0.0;
  return LearningRate(learning_rate_, step - rate_shift_, budget_used);
}

void RunPlan::AddOutlook(StepRecord& record) const {
  record.max_seconds = options_.max_seconds;
  double eta = std::numeric_limits<double>::infinity();
  if (planned_end_ > 0) {
    record.max_steps = std::max(planned_end_, record.step);
    eta = static_cast<double>(planned_end_ - record.step) * record.step_seconds;
  }
  if (options_.max_seconds > 0.0) eta = std::min(eta, options_.max_seconds - record.seconds);
  if (options_.max_epochs > 0 && options_.updates_per_epoch == 0 && record.epoch > 0.0) {
    const double left = static_cast<double>(options_.max_epochs) / record.epoch - 1.0;
    eta = std::min(eta, left * record.seconds);
  }
  record.eta_seconds = std::isfinite(eta) ? std::max(eta, 0.0) : -1.0;
}

}  // namespace dtrain
