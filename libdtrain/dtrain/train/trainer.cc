// trainer.cc - the loop, and what its parts need from each other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/distributed/replica_check.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/train/internal/end_messages.h"

namespace dtrain {
namespace {

// After this many updates the memory of a run is known.
constexpr int64_t kWarmUpUpdates = 10;

// Checks what a trainer relies on before any member uses it.
TrainingTask& Checked(TrainingTask& task, const Communicator& comm, const Context& ctx) {
  DT_CHECK_EQ(ctx.rank(), comm.rank()) << "ContextOptions::rank is not the communicator's: ranks "
                                          "would drop the same of rows without numbers";
  CheckComputeType(task, ctx.compute_type());
  return task;
}

TrainObserver* Nobody() {
  static TrainObserver nobody;
  return &nobody;
}

}  // namespace

Trainer::Trainer(TrainingTask& task, Communicator& comm, Context& ctx,
                 const TrainerOptions& options)
    : options_(options),
      task_(Checked(task, comm, ctx)),
      comm_(comm),
      observer_(Nobody()),
      timeline_(comm, options.timeline),
      progress_{.position = task.position(), .epochs = EpochsOf(task)},
      decisions_(ctx, RulesOf(options, task.losses_per_update())),
      strategy_(MakeGradientStrategy(
          StrategyOf(options, ctx.stream()),
          {task.parameters(), comm, timeline_.spans(), decisions_.step().loss_scale()})),
      plan_(options_),
      meter_(options.log_every, comm, clock_, timeline_),
      evaluator_(task, comm, ctx, timeline_, options_),
      checkpointer_(task, comm, timeline_, options_),
      step_(task, comm, ctx, timeline_, *strategy_, decisions_.step(), options_) {}

TrainState Trainer::state() const {
  TrainState state;
  progress_.Save(state);
  plan_.Save(state);
  decisions_.Save(state);
  evaluator_.Save(state);
  return state;
}

Status Trainer::Resume(const std::string& from) {
  TrainState state = this->state();
  DT_ASSIGN_OR_RETURN(const std::string path,
                      checkpointer_.Load(from, evaluator_, *strategy_, *observer_, state));
  DT_RETURN_IF_ERROR(Restore(state));
  const std::string moved = plan_.PlanEnd(progress_, task_.epoch().updates_until);
  if (comm_.is_root()) Report(recorded::kResumeEvent, moved);
  if (from != "auto" && from != "never") {
    DT_RETURN_IF_ERROR(plan_.CheckLimits(from, progress_));
  }
  checkpointer_.FinishResume(path, progress_, *observer_);
  if (progress_.step == 0) return OkStatus();
  DT_ASSIGN_OR_RETURN(const std::string note, strategy_->Resume(path, progress_.step));
  Report(recorded::kResumeEvent, note);
  return OkStatus();
}

Status Trainer::Restore(const TrainState& state) {
  decisions_.Restore(state);
  strategy_->optimizer().set_steps(state.optimizer_steps);
  evaluator_.Restore(state);
  plan_.Restore(state);
  DT_RETURN_IF_ERROR(task_.Seek(state.position));
  progress_ = {.step = state.step,
               .position = state.position,
               .epochs = EpochsOf(task_),
               .target_tokens = state.target_tokens,
               .seconds = state.seconds};
  return OkStatus();
}

StatusOr<TrainResult> Trainer::Run() {
  DT_RETURN_IF_ERROR(CheckEnds(options_));
  clock_.Start(progress_.seconds);
  timeline_.AddStartup(options_.startup_seconds);
  meter_.Start();
  checkpointer_.Start(progress_.seconds);
  // A finished run that is started again must not make another update.
  std::optional<EndReason> end = ReasonToEnd(/*stop_requested=*/false);
  if (!end) {
    strategy_->WarnOfLateStart(plan_.planned_end());
    if (options_.timeline.on) Report("timeline", timeline_.Toggle());
    if (evaluator_.is_due()) {  // a requested stop had put it off
      DT_RETURN_IF_ERROR(DoPeriodic(progress_.Clock(), {}));
      end = ReasonToEnd(/*stop_requested=*/false);
    }
  }
  while (!end) {
    DT_RETURN_IF_ERROR(StartLocalUpdatesIfDue());
    const PeriodClock before = progress_.Clock();
    DT_ASSIGN_OR_RETURN(const IssuedUpdate update, RunUpdate());
    DT_RETURN_IF_ERROR(Collect(/*all=*/false));
    if (step_.count() == kWarmUpUpdates) Report("memory", step_.DescribeMemory());
    if (strategy_->IsAverageDue(progress_.step)) DT_RETURN_IF_ERROR(AverageReplicas());
    if (strategy_->IsReplicaCheckDue(progress_.step, options_.replica_check_every)) {
      AwaitWeights(*strategy_);
      DT_RETURN_IF_ERROR(CheckReplicas(task_.parameters(),
                                       absl::StrFormat("after update %d", progress_.step), comm_,
                                       step_.stream()));
    }
    evaluator_.MarkDue(before, progress_.Clock());
    const Requests requests = inbox_.Take(update.requests, progress_.seconds,
                                          /*may_act=*/strategy_->HasEqualReplicas());
    end = ReasonToEnd(requests.stop);
    if (end) break;
    timeline_.EndUpdate();
    if (requests.timeline) Report("timeline", timeline_.Toggle());
    DT_RETURN_IF_ERROR(DoPeriodic(before, requests));
    end = ReasonToEnd(/*stop_requested=*/false);  // an evaluation may have been the last one
  }
  if (step_.count() < kWarmUpUpdates) Report("memory", step_.DescribeMemory());
  DT_RETURN_IF_ERROR(Finish(*end));
  DT_ASSIGN_OR_RETURN(EvaluationResult test, evaluator_.RunTest(progress_.step, *strategy_));
  TrainResult result{state(), *end, evaluator_.last(), std::nullopt};
  if (!test.metrics.empty()) result.test_evaluation = std::move(test);
  return result;
}

StatusOr<IssuedUpdate> Trainer::RunUpdate() {
  const Timeline::Span span(timeline_.spans(), "step", kComputeLane, progress_.step + 1);
  DT_ASSIGN_OR_RETURN(IssuedUpdate update, step_.ComputeGradients(progress_.step, inbox_, clock_));
  update.learning_rate = plan_.LearningRateAt(progress_.step, update.seconds);
  progress_ = {.step = progress_.step + 1,
               .position = task_.position(),
               .epochs = EpochsOf(task_),
               .target_tokens = progress_.target_tokens + update.sums.tokens,
               .seconds = update.seconds};
  update.step = progress_.step;
  update.epochs = progress_.epochs;
  update.target_tokens = progress_.target_tokens;
  step_.ApplyGradients(update);
  decisions_.Push(update);
  return update;
}

Status Trainer::Collect(bool all) {
  if (all) AwaitWeights(*strategy_);
  while (const std::optional<DecidedUpdate> next = decisions_.Pop(all)) {
    const auto& [update, decided] = *next;
    strategy_->optimizer().set_steps(decided.optimizer_steps);
    if (decided.skipped != 0) {
      strategy_->DiscountTokens(update.own_tokens);
      observer_->OnEvent(
          update.step, "skip",
          absl::StrCat("the gradients hold NaN or infinity: the update is skipped",
                       options_.loss_scaler.on ? absl::StrFormat(" and the loss scale is %g now",
                                                                 decided.loss_scaler.scale)
                                               : ""));
      // A rank that updates alone must not end while the others wait for it.
      if (strategy_->HasEqualReplicas()) {
        DT_RETURN_IF_ERROR(
            decisions_.CheckDiverged(update.step, update.learning_rate, checkpointer_.last_step()));
      }
    }
    std::optional<StepRecord> record = meter_.Add(update, decided);
    if (!record) continue;
    record->skipped = decisions_.skipped();
    record->norms = step_.norms().Take(record->step, record->gradient_norm);
    plan_.AddOutlook(*record);
    observer_->OnStep(*record);
  }
  return OkStatus();
}

Status Trainer::StartLocalUpdatesIfDue() {
  if (!strategy_->StartsLocalUpdates(progress_.step)) return OkStatus();
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  Report("local updates", strategy_->StartLocalUpdates());
  return OkStatus();
}

Status Trainer::AverageReplicas() {
  if (strategy_->HasEqualReplicas()) return OkStatus();
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  strategy_->AverageReplicas(progress_.step);
  decisions_.AgreeAcrossRanks(comm_);
  strategy_->optimizer().set_steps(decisions_.optimizer_steps());
  return decisions_.CheckDiverged(progress_.step,
                                  plan_.LearningRateAt(progress_.step - 1, progress_.seconds),
                                  checkpointer_.last_step());
}

Status Trainer::DoPeriodic(const PeriodClock& before, const Requests& requests) {
  const bool is_consistent = strategy_->HasEqualReplicas();
  if (evaluator_.is_due() && is_consistent) DT_RETURN_IF_ERROR(Evaluate(/*is_last=*/false));
  const bool is_best = evaluator_.best().step() == progress_.step;
  checkpointer_.MarkDue(before, progress_.Clock(), requests.checkpoint || is_best);
  if (!checkpointer_.is_due() || !is_consistent) return OkStatus();
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  // Weights that give no finite gradients must not push good checkpoints out.
  return decisions_.skipped_in_a_row() > 0 ? OkStatus() : Save();
}

Status Trainer::Evaluate(bool is_last) {
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  // The best weights are saved, too, which neither DoPeriodic() nor Finish() does with these.
  const bool may_be_best =
      is_last ? !decisions_.HasRecentOverflows() : decisions_.skipped_in_a_row() == 0;
  return evaluator_.Run(progress_.step, may_be_best, *strategy_, clock_, *observer_);
}

Status Trainer::Save() {
  const BestTracker& best = evaluator_.best();
  return checkpointer_.Save(state(), best.step() == progress_.step ? best.metric() : "", *strategy_,
                            *observer_);
}

std::optional<EndReason> Trainer::ReasonToEnd(bool stop_requested) const {
  if (stop_requested) return EndReason::kStopRequested;
  const std::optional<EndReason> limit = plan_.ReachedLimit(progress_);
  return limit || !evaluator_.StopsEarly() ? limit : EndReason::kEarlyStop;
}

Status Trainer::Finish(EndReason reason) {
  DT_RETURN_IF_ERROR(AverageReplicas());
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  if (reason == EndReason::kStopRequested) return FinishStopped();
  const int64_t step = progress_.step;
  // The last weights are worth an evaluation and a checkpoint of their own. The checkpoint of a
  // requested stop may lack the evaluation that was due with it.
  const bool is_saved = checkpointer_.last_step() == step && evaluator_.HasRun(step);
  if (!evaluator_.HasRunHere(step)) DT_RETURN_IF_ERROR(Evaluate(/*is_last=*/true));
  const int skipped = decisions_.skipped_in_a_row();
  const bool is_broken = decisions_.HasRecentOverflows()
                             ? !evaluator_.ShowsFiniteWeights()
                             : skipped > 0 && evaluator_.ShowsBrokenLoss();
  if (!is_saved && is_broken) {
    Report(recorded::kStopEvent, absl::StrCat("the run ends by ", Name(reason),
                                              ", but its last updates gave no finite gradients"));
    return internal::EndedBroken(reason, step, skipped, decisions_.optimizer_steps() > 0);
  }
  if (!is_saved) DT_RETURN_IF_ERROR(Save());
  Report(recorded::kStopEvent, absl::StrCat(recorded::kComplete, Name(reason)));
  if (comm_.AllReduceValue(inbox_.is_stop_requested() ? 1 : 0, ReduceOp::kMax) == 0) {
    return OkStatus();
  }
  return internal::StoppedBeforeTests(checkpointer_.is_on(), checkpointer_.ResumeHint());
}

Status Trainer::FinishStopped() {
  const int64_t step = progress_.step;
  if (decisions_.HasRecentOverflows()) {
    const std::string why = internal::WhyUnsaved(decisions_.skipped_in_a_row());
    Report(recorded::kStopEvent, "stopped on request; " + why);
    return internal::StoppedUnsaved(step, why, checkpointer_.last_step() >= 0);
  }
  if (checkpointer_.last_step() != step) DT_RETURN_IF_ERROR(Save());
  Report(recorded::kStopEvent, checkpointer_.is_on() ? "stopped on request with a good checkpoint"
                                                     : "stopped on request");
  return internal::Stopped(step, checkpointer_.is_on(), checkpointer_.ResumeHint());
}

void Trainer::Report(const std::string& kind, const std::string& text) {
  if (!text.empty()) observer_->OnEvent(progress_.step, kind, text);
}

}  // namespace dtrain
