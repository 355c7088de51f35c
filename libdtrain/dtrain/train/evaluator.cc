// evaluator.cc - one evaluation: the average of the weights, equal metrics on all ranks, a report.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/train/internal/differing_lines.h"

namespace dtrain {
namespace {

StatusOr<EvaluationResult> Call(const Evaluation::Function& evaluate, Context& ctx) {
  return evaluate ? evaluate(ctx) : EvaluationResult();
}

bool HasFiniteLoss(const EvaluationResult& result) {
  return !result.Has("loss") || std::isfinite(result.Metric("loss"));
}

// "error_rate 0.25", a line each.
std::string MetricLines(const EvaluationResult& result) {
  std::string lines;
  for (const auto& [name, value] : result.metrics) {
    // The sign of NaN says nothing.
    absl::StrAppend(&lines, name, " ", std::isnan(value) ? "nan" : absl::StrFormat("%.17g", value),
                    "\n");
  }
  return lines;
}

// InternalError, the same on all ranks, if they have different metrics: they would decide
// differently. Collective; one small message if they agree.
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
      "the task's evaluation gave %s on rank %d, but %s on rank 0: sum what each rank has over the "
      "ranks before it returns (Communicator::AllReduce)",
      metric(there), other - texts.begin(), metric(here)));
}

}  // namespace

Evaluator::Evaluator(TrainingTask& task, Communicator& comm, Context& ctx, StepTimeline& timeline,
                     const TrainerOptions& options)
    : evaluation_(task.evaluation()),
      measured_(task.identity().evaluation),
      comm_(comm),
      ctx_(ctx),
      timeline_(timeline),
      options_(options),
      best_(options.best_metric),
      early_stop_(options.early_stop, options.best_metric),
      warnings_(comm.is_root()) {}

void Evaluator::MarkDue(const PeriodClock& before, const PeriodClock& now) {
  is_due_ = is_due_ || PeriodPassed(options_.eval_every, before, now);
}

Status Evaluator::Run(int64_t step, bool may_be_best, GradientStrategy& strategy, RunClock& clock,
                      TrainObserver& observer) {
  const auto span = timeline_.Enter(Phase::kEvaluation, step);
  // Evaluation is not training time: rates and time limits leave it out.
  const RunClock::Pause pause(clock);
  ctx_.set_training(false);
  SwapAverage(strategy, step, ctx_.stream());
  StatusOr<EvaluationResult> evaluated = Call(evaluation_.dev, ctx_);
  const Status sampled = evaluated.ok() ? AddSample(*evaluated) : OkStatus();
  SwapAverage(strategy, step, ctx_.stream());
  DT_RETURN_IF_ERROR(evaluated.status());
  DT_RETURN_IF_ERROR(sampled);
  EvaluationResult& result = last_.emplace(*std::move(evaluated));
  DT_RETURN_IF_ERROR(CheckSameMetrics(result, comm_));
  if (!result.metrics.empty()) {
    best_.SetMetricIfNone(result.metrics.front().first);
    early_stop_.SetMetricIfNone(best_.metric());
  }
  last_step_ = step;
  const bool is_repeated = std::exchange(evaluated_step_, step) == step;
  is_due_ = false;
  const double value = result.Metric(best_.metric());
  const bool smaller_is_better = evaluation_.smaller_is_better(best_.metric());
  const bool had_news = best_.step() >= 0 && (smaller_is_better || best_.value() != 0.0);
  // A metric of decisions, like accuracy, is a number even if the loss is not.
  const bool is_best = may_be_best && std::isfinite(value) && HasFiniteLoss(result) &&
                       best_.Offer(step, value, smaller_is_better);
  const bool is_news = is_best && (smaller_is_better || value != 0.0);
  warnings_.Look(result, SteeringMetrics());
  const std::string& watched = early_stop_.metric();
  if (result.Has(watched)) {
    early_stop_.Watch(step, result.Metric(watched), evaluation_.smaller_is_better(watched));
  }
  result.seconds = pause.Seconds();
  observer.OnEvaluation({step, &result, is_best, is_news, is_repeated});
  if (is_news && !had_news) observer.OnEvent(step, "best", DescribeDirections());
  return OkStatus();
}

Status Evaluator::AddSample(EvaluationResult& result) const {
  // Without a dev set nothing is compared with it.
  if (!options_.details || !evaluation_.sample || result.metrics.empty()) return OkStatus();
  DT_ASSIGN_OR_RETURN(const EvaluationResult sample, evaluation_.sample(ctx_));
  for (const auto& [name, value] : sample.metrics) {
    result.metrics.emplace_back(recorded::kTrainSamplePrefix + name, value);
  }
  return OkStatus();
}

StatusOr<EvaluationResult> Evaluator::RunTest(int64_t step, GradientStrategy& strategy) {
  const auto span = timeline_.Enter(Phase::kEvaluation, step);
  ctx_.set_training(false);
  SwapAverage(strategy, step, ctx_.stream());
  StatusOr<EvaluationResult> result = Call(evaluation_.test, ctx_);
  SwapAverage(strategy, step, ctx_.stream());
  return result;
}

std::vector<SteeringMetric> Evaluator::SteeringMetrics() const {
  std::vector<SteeringMetric> metrics = {{.name = best_.metric(),
                                          .if_missing = "no checkpoint is kept as the best",
                                          .if_undefined = "it cannot choose the best checkpoint"}};
  if (early_stop_.is_on()) {
    metrics.push_back({.name = early_stop_.metric(),
                       .if_missing = "the run does not stop early",
                       .if_undefined = "that counts as no improvement, and early_stop.patience of "
                                       "them end the run"});
  }
  return metrics;
}

std::string Evaluator::DescribeDirections() const {
  const auto direction = [&](const std::string& metric) {
    return metric +
           (evaluation_.smaller_is_better(metric) ? ", smaller is better" : ", larger is better");
  };
  const bool stops_by_another = early_stop_.is_on() && early_stop_.metric() != best_.metric();
  return absl::StrCat("kept by ", direction(best_.metric()),
                      stops_by_another ? "; early stopping looks at " : "",
                      stops_by_another ? direction(early_stop_.metric()) : "");
}

bool Evaluator::ShowsFiniteWeights() const {
  // An average of weights stays good for a while after the weights are broken.
  if (!last_ || options_.adam.ema_decay > 0.0f) return false;
  return std::isfinite(last_->Metric(last_->Has("loss") ? "loss" : best_.metric()));
}

bool Evaluator::ShowsBrokenLoss() const { return last_ && !HasFiniteLoss(*last_); }

void Evaluator::Save(TrainState& state) const {
  best_.Save(state);
  early_stop_.Save(state);
  state.evaluation_due = is_due_;
  state.evaluated_step = evaluated_step_;
  state.evaluation = measured_;
}

void Evaluator::Restore(const TrainState& state) {
  best_.Restore(state);
  early_stop_.Restore(state);
  is_due_ = state.evaluation_due;
  evaluated_step_ = state.evaluated_step;
}

void Evaluator::Adopt(bool is_own, TrainObserver& observer, TrainState& state) const {
  const auto report = [&](const std::string& text) {
    if (!text.empty()) observer.OnEvent(state.step, recorded::kResumeEvent, text);
  };
  report(best_.Adopt(is_own, state));
  report(early_stop_.Adopt(is_own, state));
  const std::string& there = state.evaluation;
  const std::string& here = measured_;
  const bool differs = !there.empty() && !here.empty() && there != here;
  if (is_own && !differs) return;
  if (is_own) {
    report(absl::StrFormat(
        "evaluations measure otherwise from here on (%s before, %s now): the "
        "best checkpoint and early stopping begin anew",
        internal::DifferingLines(there, here), internal::DifferingLines(here, there)));
  }
  BestTracker::Forget(state);
  EarlyStop::Forget(state);
}

}  // namespace dtrain
