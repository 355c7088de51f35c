// trainer.cc - one update after the other, with every decision taken on reduced values.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/device/tensor_copy.h"
#include "dtrain/distributed/internal/local_updates.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

// Within this time all ranks have the signal that one of them has.
constexpr double kSignalSpreadSeconds = 1.0;
// Updates skipped in a row after which a run has diverged for good.
constexpr int kMaxSkippedInARow = 20;
// Updates after which the memory of a run is known.
constexpr int64_t kWarmUpUpdates = 10;

// About TrainingTask::losses_per_update(), so that gradients are about those of the scaled mean
// loss, whatever the batch. A power of two, which rounds nothing.
double LossScaleTokens(const TrainingTask& task) {
  const double losses = task.losses_per_update();
  return losses > 0.0 ? std::exp2(std::round(std::log2(losses))) : 1.0;
}

StepRules RulesOf(const TrainerOptions& options, const TrainingTask& task) {
  return {.loss_scaler = options.loss_scaler,
          .loss_scale_tokens = LossScaleTokens(task),
          .clip_norm = options.clip_norm,
          .beta1 = options.adam.CorrectedBeta1(),
          .beta2 = options.adam.CorrectedBeta2(),
          .average_decay = options.adam.ema_decay};
}

Adam MakeAdam(ParameterSet& parameters, const AdamConfig& config, const OptimizerShards* shards) {
  if (shards == nullptr) return {parameters, config};
  return {parameters, config, shards->mine()};
}

// Every rank gets the weights of all shards, which the timeline shows.
void GatherWeights(OptimizerShards& shards, int64_t step, Timeline& timeline, Stream& stream) {
  const Timeline::Span span(timeline, "weights", kCommunicationLane, step);
  shards.GatherWeights(stream);
}

bool TakesGraphs(CudaGraphs graphs, const Device& device, int ranks) {
  if (device.type == DeviceType::kCpu) return false;
  return graphs == CudaGraphs::kOn || (graphs == CudaGraphs::kAuto && ranks == 1);
}

// What a trainer takes for granted, checked before any member looks at it.
TrainingTask& Checked(TrainingTask& task, const Communicator& comm, const Context& ctx) {
  DT_CHECK_EQ(ctx.rank(), comm.rank()) << "ContextOptions::rank is not the communicator's: ranks "
                                          "would drop the same of rows without numbers";
  CheckComputeType(task, ctx.compute_type());
  return task;
}

}  // namespace

Trainer::Trainer(TrainingTask& task, Communicator& comm, Context& ctx,
                 const TrainerOptions& options)
    : task_(Checked(task, comm, ctx)),
      comm_(comm),
      ctx_(ctx),
      options_(options),
      timeline_(comm, options.timeline),
      step_(ctx.device(), RulesOf(options, task)),
      reducer_(MakeReducer(AreRoundsDue(0) ? static_cast<Communicator&>(alone_) : comm)),
      shards_(options.shard_optimizer && comm.size() > 1
                  ? std::make_unique<OptimizerShards>(task.parameters(), comm, *reducer_)
                  : nullptr),
      adam_(MakeAdam(task.parameters(), options.adam, shards_.get())),
      ring_(ctx.device()),
      graphs_(TakesGraphs(options.cuda_graphs, ctx.device(), comm.size()), ctx),
      planned_end_(UpdatesOf(options.max_steps, options.max_epochs, options.updates_per_epoch)) {
  CheckSchedule(options.learning_rate);
  DT_CHECK(options.learning_rate.kind != LrScheduleOptions::Kind::kLinearBudget ||
           options.max_seconds > 0.0)
      << "a learning rate that falls with the time needs max_seconds";
  step_.Reset(InitialLossScale(options.loss_scaler), 0, ctx.stream());
  if (options.sync_every > 1 && comm.size() > 1) {
    DT_CHECK_EQ(options.reducer.power_sgd.rank, 0) << "ranks that update alone send no gradients";
    DT_CHECK(!options.shard_optimizer) << "ranks that update alone need all moments";
  }
  state_.position = task.position();
  if (options.early_stop.metric.empty()) options_.early_stop.metric = options.best_metric;
  state_.best_metric_name = options_.best_metric;
  state_.early_stop_metric_name = options_.early_stop.metric;
}

Trainer::~Trainer() { ctx_.set_loss({}); }

StatusOr<TrainResult> Trainer::Run() {
  DT_RETURN_IF_ERROR(CheckEnds(options_));
  ctx_.set_training(true);
  clock_.Restart();
  window_.start = Elapsed();
  elapsed_ = last_checkpoint_ = resumed_seconds_;  // the same on all ranks
  // A resumed run that is already complete must not make another update.
  std::string reason = EndReason({});
  if (reason.empty()) WarnOfLateStarts();
  if (reason.empty() && options_.timeline.on) StartTimeline();
  if (reason.empty() && state_.evaluation_due) {
    DT_RETURN_IF_ERROR(DoPeriodic(Clock(), {}));
    reason = EndReason({});
  }
  while (reason.empty()) {
    if (!rounds_ && AreRoundsDue(state_.step)) DT_RETURN_IF_ERROR(BeginRounds());
    const PeriodClock before = Clock();
    Update update;
    {
      const Timeline::Span span(timeline_.spans(), "step", kComputeLane, state_.step + 1);
      DT_ASSIGN_OR_RETURN(update, RunUpdate());
      ApplyGradients(update);
    }
    issued_.push_back(update);
    DT_RETURN_IF_ERROR(Collect(/*all=*/false));
    if (++updates_here_ == kWarmUpUpdates) ReportMemory();
    if (rounds_ && rounds_->EndsAt(state_.step - options_.sync_every_start))
      DT_RETURN_IF_ERROR(EndRound());
    DT_RETURN_IF_ERROR(CheckReplicasNow());
    state_.evaluation_due =
        state_.evaluation_due || PeriodPassed(options_.eval_every, before, Clock());
    const Requests requests = TakeRequests(update.requests);
    reason = EndReason(requests);
    if (!reason.empty()) break;
    timeline_.EndUpdate();
    ToggleTimeline(update.requests);
    DT_RETURN_IF_ERROR(DoPeriodic(before, requests));
    reason = EndReason({});  // an evaluation may have been the last one
  }
  ctx_.set_training(false);
  if (updates_here_ < kWarmUpUpdates) ReportMemory();
  DT_RETURN_IF_ERROR(Finish(reason));
  DT_ASSIGN_OR_RETURN(EvaluationResult test, EvaluateTest());
  TrainResult result{state_, reason, last_evaluation_, std::nullopt};
  if (!test.metrics.empty()) result.test_evaluation = std::move(test);
  return result;
}

StatusOr<Trainer::Update> Trainer::RunUpdate() {
  Update update;
  Timer timer;
  comm_.heartbeat()->SetStep(state_.step);
  const auto next = [&] {
    const Timeline::Span span = Enter(Phase::kData);
    return task_.NextUpdate();
  };
  DT_ASSIGN_OR_RETURN(const int micro_batches, next());
  DT_CHECK(micro_batches >= 1 && micro_batches <= kMaxMicroBatches)
      << "NextUpdate() gave " << micro_batches << " micro-batches, of 1 to " << kMaxMicroBatches
      << "; a rank without data gives 1, with an empty batch";
  update.data_seconds = timer.Restart();
  update.source_tokens = static_cast<double>(task_.source_tokens());
  DT_RETURN_IF_ERROR(TellReducer());
  Backward(micro_batches, update);
  const Timeline::Span span = Enter(Phase::kExchange);
  timer.Restart();
  reducer_->Finish();
  update.comm_seconds = timer.Seconds();
  ReduceSums(update);
  return update;
}

void Trainer::Backward(int micro_batches, Update& update) {
  ParameterSet& parameters = task_.parameters();
  ctx_.activations().ResetPeak();  // evaluations need other amounts
  Zero(parameters.gradients(), ctx_.stream());
  ctx_.set_loss({step_.loss_scale(), step_.loss_sum(), step_.nll_sum()});
  for (int i = 0; i < micro_batches; ++i) {
    ctx_.set_step(state_.step, i);
    update.sums += RunMicroBatch(i, i == micro_batches - 1);
  }
  DT_CHECK(!options_.loss_scaler.on || update.sums.loss == 0.0)
      << "a task whose losses come back to the host does not scale them by ctx.loss()";
  activation_peak_ = std::max(activation_peak_, static_cast<int64_t>(ctx_.activations().peak()));
}

LossSums Trainer::RunMicroBatch(int i, bool is_last) {
  task_.Upload(i, ctx_);
  const auto forward_and_backward = [&] {
    const LossSums sums = [&] {
      const Timeline::Span span = Enter(Phase::kForward, i);
      return task_.Forward(i, ctx_);
    }();
    const Timeline::Span span = Enter(Phase::kBackward, i);
    task_.Backward(ctx_);
    return sums;
  };
  const std::string key = graphs_.is_on() ? task_.GraphKey() : "";
  if (!key.empty()) {
    const Timeline::Span span(timeline_.spans(), "graph", kComputeLane, i);
    const LossSums sums =
        graphs_.Run(absl::StrCat(key, " @", ctx_.activations().Layout()), forward_and_backward);
    if (!is_last) return sums;
    for (const Parameter* parameter : task_.parameters().in_backward_order()) {
      reducer_->MarkReady(parameter->index());
    }
    return sums;
  }
  // Only the last micro-batch completes the gradients; the others accumulate.
  if (is_last) reducer_->Listen();
  const LossSums sums = forward_and_backward();
  reducer_->StopListening();
  return sums;
}

void Trainer::ReportMemory() {
  if (options_.planned_activation_bytes == 0 || updates_here_ == 0) return;
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  Event("memory", absl::StrFormat("activations took %.1f MiB at most in %d updates, %.1f MiB were "
                                  "planned",
                                  mebibytes(activation_peak_), updates_here_,
                                  mebibytes(options_.planned_activation_bytes)));
}

Timeline::Span Trainer::Enter(Phase phase, int64_t index) {
  comm_.heartbeat()->SetPhase(phase);
  const int lane = phase < Phase::kEvaluation ? kComputeLane : kEvaluationLane;
  return {timeline_.spans(), Name(phase), lane, index};
}

void Trainer::StartTimeline() {
  if (options_.timeline.directory.empty()) return;
  timeline_.Start();
  Event("timeline",
        absl::StrFormat("each rank writes a trace into %s", options_.timeline.directory));
}

void Trainer::ToggleTimeline(const Requests& requests) {
  if (!requests.timeline || elapsed_ - last_toggle_ <= kSignalSpreadSeconds) return;
  last_toggle_ = elapsed_;
  if (!timeline_.is_on()) return StartTimeline();
  timeline_.Stop();
  Event("timeline", absl::StrFormat("the traces in %s end here; dtrain trace-merge joins them",
                                    options_.timeline.directory));
}

void Trainer::ReduceSums(Update& update) {
  const bool checkpoint = stop_flags_ != nullptr && stop_flags_->checkpoint.exchange(false);
  const bool stop = stop_flags_ != nullptr && stop_flags_->stop;
  const bool timeline = stop_flags_ != nullptr && stop_flags_->timeline.exchange(false);
  std::array<double, 6> sums = {static_cast<double>(update.sums.tokens),
                                update.source_tokens,
                                checkpoint ? 1.0 : 0.0,
                                stop ? 1.0 : 0.0,
                                comm_.is_root() ? Elapsed() : 0.0,
                                timeline ? 1.0 : 0.0};
  comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
  update.own_tokens = update.sums.tokens;
  update.sums.tokens = static_cast<int64_t>(sums[0]);
  DT_CHECK(task_.global_tokens() == 0 || task_.global_tokens() == update.sums.tokens)
      << "the task foretold " << task_.global_tokens() << " tokens, its losses count "
      << update.sums.tokens;
  update.source_tokens = sums[1];
  const Requests heard = {
      .checkpoint = sums[2] > 0.0, .stop = sums[3] > 0.0, .timeline = sums[5] > 0.0};
  // Some ranks may hear a signal just before an update's sums and others just behind them.
  update.requests = {.checkpoint = heard.checkpoint && !heard_.checkpoint,
                     .stop = heard.stop,
                     .timeline = heard.timeline && !heard_.timeline};
  heard_ = heard;
  update.elapsed = sums[4];
}

void Trainer::ApplyGradients(Update& update) {
  const Timeline::Span span = Enter(Phase::kUpdate);
  Stream& stream = ctx_.stream();
  elapsed_ = update.elapsed;
  DT_CHECK(update.sums.tokens > 0) << "the task gives LossSums without tokens on every rank";
  // In a round perhaps none: a rank without data leaves its weights and moments as they are.
  const int64_t learned = rounds_ ? update.own_tokens : update.sums.tokens;
  if (rounds_) rounds_->Count(learned);
  update.learning_rate = RateOf(state_.step);
  update.epoch = task_.epochs();
  update.step = ++state_.step;
  update.target_tokens = state_.target_tokens += update.sums.tokens;
  state_.position = task_.position();
  state_.seconds = elapsed_;
  step_.SetInputs({.learning_rate = update.learning_rate, .tokens = static_cast<double>(learned)},
                  stream);
  static_cast<void>(graphs_.Run("update", [&] {
    Tensor squares = step_.squares();
    if (shards_) {
      shards_->SumOfSquares(squares, stream);
    } else {
      SumOfSquares(task_.parameters().gradients(), squares, stream);
    }
    step_.Decide(stream);
    adam_.Step(step_.adam(), step_.average_decay(), stream);
    if (shards_) GatherWeights(*shards_, state_.step, timeline_.spans(), stream);
    return LossSums();
  }));
  ring_.Push(step_, stream);
}

void Trainer::SwapAverage() {
  if (!adam_.average()) return;
  adam_.SwapAverage(ctx_.stream());
  if (shards_) GatherWeights(*shards_, state_.step, timeline_.spans(), ctx_.stream());
}

Status Trainer::Collect(bool all) {
  while (all ? !ring_.empty() : ring_.is_due()) {
    const Update update = issued_.front();
    issued_.pop_front();
    const StepState decided = ring_.Pop();
    DT_RETURN_IF_ERROR(Learn(update, decided));
    Record(update, decided);
  }
  return OkStatus();
}

Status Trainer::Learn(const Update& update, const StepState& decided) {
  state_.loss_scaler = decided.loss_scaler;
  state_.optimizer_steps = decided.optimizer_steps;
  adam_.set_steps(decided.optimizer_steps);
  if (decided.inputs.tokens == 0.0) return OkStatus();
  if (decided.skipped == 0) {
    skipped_in_a_row_ = 0;
    return OkStatus();
  }
  ++state_.skipped;
  if (rounds_) rounds_->Discount(update.own_tokens);
  Event(update.step, "skip",
        absl::StrFormat("the gradients hold NaN or infinity: the update is skipped%s",
                        options_.loss_scaler.on ? absl::StrFormat(" and the loss scale is %g now",
                                                                  decided.loss_scaler.scale)
                                                : ""));
  ++skipped_in_a_row_;
  // A rank by itself must not end while the others wait for it.
  return rounds_ ? OkStatus() : CheckDiverged(update.step, update.learning_rate);
}

Status Trainer::CheckDiverged(int64_t step, double learning_rate) const {
  if (skipped_in_a_row_ < kMaxSkippedInARow) return OkStatus();
  // Nothing between it and the first skipped update shows that its weights were good.
  const bool is_last_doubtful =
      !options_.checkpoint_dir.empty() && last_checkpoint_step_ >= step - skipped_in_a_row_;
  return DivergedError(absl::StrFormat(
      "the gradients of %d updates in a row hold NaN or infinity (step %d, learning rate %.3g); "
      "resume from the last checkpoint with a lower optimizer.learning_rate%s%s",
      skipped_in_a_row_, step, learning_rate,
      ctx_.compute_type() == DType::kFloat32
          ? " or more optimizer.warmup_steps"
          : ", more optimizer.warmup_steps, or trainer.precision=fp32",
      is_last_doubtful
          ? absl::StrFormat("; should that end here again, delete the checkpoint of step %d, which "
                            "was written just before",
                            last_checkpoint_step_)
          : ""));
}

double Trainer::BudgetUsed() const {
  return options_.max_seconds > 0.0 ? elapsed_ / options_.max_seconds : 0.0;
}

void Trainer::Record(const Update& update, const StepState& decided) {
  window_.loss += update.sums.loss + decided.loss;
  window_.nll += update.sums.nll + decided.nll;
  window_.tokens += update.sums.tokens;
  window_.source_tokens += update.source_tokens;
  window_.data_seconds += update.data_seconds;
  window_.comm_seconds += update.comm_seconds;
  ++window_.updates;
  if (options_.log_every == 0 || update.step % options_.log_every != 0) return;
  std::array<double, 2> losses = {window_.loss, window_.nll};
  comm_.AllReduce(std::span<double>(losses), ReduceOp::kSum);
  const double seconds = std::max(Elapsed() - window_.start, 1e-9);
  const double tokens = static_cast<double>(std::max<int64_t>(window_.tokens, 1));
  const double step_seconds = seconds / static_cast<double>(window_.updates);
  const StepRecord record{.step = update.step,
                          .max_steps = planned_end_ > 0 ? std::max(planned_end_, update.step) : 0,
                          .epoch = update.epoch,
                          .loss = losses[0] / tokens,
                          .nll = losses[1] / tokens,
                          .learning_rate = update.learning_rate,
                          .gradient_norm = decided.gradient_norm,
                          .skipped = state_.skipped,
                          .target_tokens = update.target_tokens,
                          .step_seconds = step_seconds,
                          .data_share = window_.data_seconds / seconds,
                          .comm_share = window_.comm_seconds / seconds,
                          .target_tokens_per_second = tokens / seconds,
                          .source_tokens_per_second = window_.source_tokens / seconds,
                          .seconds = update.elapsed,
                          .eta_seconds = EtaSeconds(update, step_seconds)};
  window_ = {.start = Elapsed()};
  if (observer_ != nullptr) observer_->OnStep(record);
}

double Trainer::EtaSeconds(const Update& update, double step_seconds) const {
  double eta = std::numeric_limits<double>::infinity();
  if (planned_end_ > 0) eta = static_cast<double>(planned_end_ - update.step) * step_seconds;
  if (options_.max_seconds > 0.0) eta = std::min(eta, options_.max_seconds - update.elapsed);
  if (options_.max_epochs > 0 && options_.updates_per_epoch == 0 && update.epoch > 0.0) {
    const double left = static_cast<double>(options_.max_epochs) / update.epoch - 1.0;
    eta = std::min(eta, left * update.elapsed);
  }
  return std::isfinite(eta) ? std::max(eta, 0.0) : -1.0;
}

PeriodClock Trainer::Clock() const {
  return {.updates = state_.step,
          .epochs = task_.epochs(),
          .tokens = state_.target_tokens,
          .seconds = elapsed_};
}

Status Trainer::DoPeriodic(const PeriodClock& before, const Requests& requests) {
  const PeriodClock now = Clock();
  if (state_.evaluation_due && !IsInRound()) DT_RETURN_IF_ERROR(Evaluate(/*is_last=*/false));
  const bool overdue = options_.checkpoint_seconds > 0.0 &&
                       elapsed_ - last_checkpoint_ >= options_.checkpoint_seconds;
  // mpirun's signal reaches the ranks one after the other: that is one request, not one each.
  const bool requested = requests.checkpoint && elapsed_ - last_request_ > kSignalSpreadSeconds;
  if (requested) last_request_ = elapsed_;
  if (overdue || requested || PeriodPassed(options_.checkpoint_every, before, now) ||
      state_.best_step == state_.step) {
    checkpoint_due_ = true;
  }
  if (!checkpoint_due_ || IsInRound()) return OkStatus();
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  // Weights that give no finite gradients must not push good checkpoints out.
  return skipped_in_a_row_ > 0 ? OkStatus() : SaveCheckpoint();
}

void Trainer::Event(int64_t step, const std::string& kind, const std::string& text) {
  if (observer_ != nullptr) observer_->OnEvent(step, kind, text);
}

}  // namespace dtrain
