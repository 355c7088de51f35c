// trainer_evaluation.cc - evaluations of a run, the best of them, and when to stop early.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/gather.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/train/trainer.h"

namespace dtrain {
namespace {

bool Improves(bool smaller_is_better, double value, double best, double min_delta) {
  return smaller_is_better ? value < best - min_delta : value > best + min_delta;
}

// False where an evaluation has a loss that is none.
bool HasFiniteLoss(const EvaluationResult& result) {
  return !result.Has("loss") || std::isfinite(result.Metric("loss"));
}

// "error_rate 0.25", a line each.
std::string MetricLines(const EvaluationResult& result) {
  std::string lines;
  for (const auto& [name, value] : result.metrics) {
    // NaN has a sign that says nothing.
    absl::StrAppend(&lines, name, " ", std::isnan(value) ? "nan" : absl::StrFormat("%.17g", value),
                    "\n");
  }
  return lines;
}

// Ranks that decide by other values would part: InternalError, the same on all. Collective; one
// small message where the ranks agree.
Status CheckSameMetrics(const EvaluationResult& result, Communicator& comm) {
  const std::string ours = MetricLines(result);
  if (CheckRanksAgree({{"metrics", ours}}, comm).ok()) return OkStatus();
  const std::vector<std::string> texts = AllGatherStrings(comm, ours);
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text != texts[0]; });
  const std::vector<std::string> here = absl::StrSplit(texts[0], '\n');
  const std::vector<std::string> there = absl::StrSplit(*other, '\n');
  size_t line = 0;
  while (line + 1 < std::min(here.size(), there.size()) && here[line] == there[line]) ++line;
  const auto metric = [&](const std::vector<std::string>& lines) {
    return lines[line].empty() ? "(no more metrics)" : lines[line];
  };
  return InternalError(absl::StrFormat(
      "the task's Evaluate() gave %s on rank %d, but %s on rank 0: sum what each rank has over the "
      "ranks before it returns (Communicator::AllReduce)",
      metric(there), other - texts.begin(), metric(here)));
}

}  // namespace

Status Trainer::Evaluate(bool is_last) {
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  const Timeline::Span span = Enter(Phase::kEvaluation, state_.step);
  const double started = Elapsed();
  ctx_.set_training(false);
  SwapAverage();
  StatusOr<EvaluationResult> result = task_.Evaluate(ctx_);
  SwapAverage();
  ctx_.set_training(true);
  DT_RETURN_IF_ERROR(result.status());
  DT_RETURN_IF_ERROR(CheckSameMetrics(*result, comm_));
  ChooseMetrics(*result);
  last_evaluation_step_ = state_.step;
  const bool is_repeated = std::exchange(state_.evaluated_step, state_.step) == state_.step;
  state_.evaluation_due = false;
  const double value = result->Metric(options_.best_metric);
  // The best one is written, too: not while updates are skipped (DoPeriodic(), Finish()).
  const bool is_written = is_last ? !IsDoubtful() : skipped_in_a_row_ == 0;
  // A metric of decisions, like accuracy, is a number even where the loss is none.
  const bool is_first = state_.best_step < 0;
  const bool is_best = std::isfinite(value) && HasFiniteLoss(*result) && is_written &&
                       (is_first || Improves(task_.SmallerIsBetter(options_.best_metric), value,
                                             state_.best_metric, 0.0));
  if (is_best) {
    state_.best_metric = value;
    state_.best_step = state_.step;
  }
  const EarlyStopOptions& early = options_.early_stop;
  WarnIfMissing(*result);
  WarnIfUndefined(*result);
  const double watched = result->Metric(early.metric);
  // An undefined metric is no improvement; one that no dev set gives says nothing.
  if (early.patience > 0 && result->Has(early.metric) && state_.step >= early.min_steps) {
    const bool is_better =
        std::isfinite(watched) &&
        (state_.early_stop_step < 0 || Improves(task_.SmallerIsBetter(early.metric), watched,
                                                state_.early_stop_best, early.min_delta));
    if (is_better) {
      state_.early_stop_best = watched;
      state_.early_stop_step = state_.step;
      state_.stalled_evaluations = 0;
    } else {
      ++state_.stalled_evaluations;
    }
  }
  result->seconds = Elapsed() - started;
  if (observer_ != nullptr) {
    observer_->OnEvaluation({state_.step, &*result, is_best, is_repeated});
  }
  if (is_best && is_first) TellDirections();
  last_evaluation_ = *std::move(result);
  // Evaluation is not training time: rates and budgets leave it out.
  resumed_seconds_ -= Elapsed() - started;
  return OkStatus();
}

void Trainer::ChooseMetrics(const EvaluationResult& result) {
  if (result.metrics.empty()) return;
  std::string& best = options_.best_metric;
  if (best.empty()) best = state_.best_metric_name = result.metrics.front().first;
  std::string& early = options_.early_stop.metric;
  if (early.empty()) early = state_.early_stop_metric_name = best;
}

void Trainer::TellDirections() {
  const auto direction = [&](const std::string& metric) {
    return metric + (task_.SmallerIsBetter(metric) ? ", smaller is better" : ", larger is better");
  };
  const EarlyStopOptions& early = options_.early_stop;
  const bool stops_by_another = early.patience > 0 && early.metric != options_.best_metric;
  Event("best", absl::StrCat("kept by ", direction(options_.best_metric),
                             stops_by_another ? "; early stopping looks at " : "",
                             stops_by_another ? direction(early.metric) : ""));
}

bool Trainer::IsEvaluationFinite() const {
  // An average of weights keeps good ones for a while.
  if (!last_evaluation_ || options_.adam.ema_decay > 0.0f) return false;
  const bool has_loss = last_evaluation_->Has("loss");
  return std::isfinite(last_evaluation_->Metric(has_loss ? "loss" : options_.best_metric));
}

void Trainer::WarnIfMissing(const EvaluationResult& result) {
  if (result.metrics.empty() || std::exchange(told_missing_, true) || !comm_.is_root()) return;
  const auto warn = [&](const std::string& metric, const char* purpose) {
    if (result.Has(metric)) return;
    const auto name = [](std::string* out, const auto& entry) { out->append(entry.first); };
    LogWarning(absl::StrFormat("evaluations give %s, but not %s: %s",
                               absl::StrJoin(result.metrics, ", ", name), metric, purpose));
  };
  warn(options_.best_metric, "no checkpoint is kept as the best");
  if (options_.early_stop.patience > 0) {
    warn(options_.early_stop.metric, "the run does not stop early");
  }
}

void Trainer::WarnIfUndefined(const EvaluationResult& result) {
  const std::set<std::string> told = std::exchange(undefined_, {});
  const auto look = [&](const std::string& metric, const char* consequence) {
    if (!result.Has(metric) || std::isfinite(result.Metric(metric))) return;
    const bool is_new = undefined_.insert(metric).second && !told.contains(metric);
    if (!is_new || !comm_.is_root()) return;
    // Losses, and what is computed of them, are defined for any labels.
    const bool is_loss = metric.ends_with("loss") || metric == "nll" || metric == "ppl";
    LogWarning(absl::StrFormat("%s is undefined on the dev set (%s): %s", metric,
                               is_loss
                                   ? "the weights or activations are not finite"
                                   : "perhaps all texts, or all of a group, have the same label",
                               consequence));
  };
  look(options_.best_metric, "it cannot choose the best checkpoint");
  if (options_.early_stop.patience > 0) {
    look(options_.early_stop.metric,
         "that counts as no improvement, and early_stop.patience of them end the run");
  }
}

StatusOr<EvaluationResult> Trainer::EvaluateTest() {
  const Timeline::Span span = Enter(Phase::kEvaluation, state_.step);
  ctx_.set_training(false);
  SwapAverage();
  StatusOr<EvaluationResult> result = task_.EvaluateTest(ctx_);
  SwapAverage();
  return result;
}

}  // namespace dtrain
