// trainer.cc - one update after the other, with every decision taken on reduced values.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/reduce.h"
#include "dtrain/tensor/copy.h"
#include "dtrain/train/broadcast.h"

namespace dtrain {
namespace {

// Micro-batches of one update draw dropout from steps update * kMicroSteps + i, so that the numbers
// do not depend on how many each rank had before.
constexpr int64_t kMicroSteps = 1024;
// Within this time all ranks have the signal that one of them has.
constexpr double kSignalSpreadSeconds = 1.0;
// Updates skipped in a row after which a run has diverged for good.
constexpr int kMaxSkippedInARow = 20;
// Updates after which the memory of a run is known.
constexpr int64_t kWarmUpUpdates = 10;

bool Improves(const std::string& metric, double value, double best, double min_delta) {
  return SmallerIsBetter(metric) ? value < best - min_delta : value > best + min_delta;
}

}  // namespace

bool SmallerIsBetter(const std::string& metric) {
  return metric.ends_with("loss") || metric.ends_with("nll") || metric.ends_with("ppl");
}

double EvaluationResult::Metric(const std::string& name) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

Trainer::Trainer(TrainingTask& task, Communicator& comm, Context& ctx,
                 const TrainerOptions& options)
    : task_(task),
      comm_(comm),
      ctx_(ctx),
      options_(options),
      adam_(task.parameters(), options.adam),
      loss_scaler_(options.loss_scaler) {
  reducer_ = std::make_unique<GradientReducer>(task.parameters(), comm, options.reducer);
  state_.position = task.position();
}

Trainer::~Trainer() = default;

absl::Status Trainer::Resume(const std::string& from) {
  absl::StatusOr<std::string> path = std::string();
  if (comm_.is_root()) path = Load(from);
  DT_RETURN_IF_ERROR(BroadcastState(path.status()));
  // A complete run that is started again has its checkpoint already.
  if (from == "auto") last_checkpoint_step_ = state_.step;
  if (state_.step > 0 && comm_.is_root()) Event("resume", "going on from " + *path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Trainer::Load(const std::string& from) {
  if (from == "never" || (from == "auto" && options_.checkpoint_dir.empty())) return "";
  std::optional<Checkpoint> checkpoint;
  if (from == "auto") {
    DT_ASSIGN_OR_RETURN(checkpoint, FindLatestGood(options_.checkpoint_dir));
    if (!checkpoint) return "";
  } else {
    DT_ASSIGN_OR_RETURN(checkpoint, OpenCheckpoint(from));
  }
  DT_RETURN_IF_ERROR(task_.CheckCheckpoint(*checkpoint));
  DT_RETURN_IF_ERROR(RestoreCheckpoint(*checkpoint, task_.parameters(), adam_, state_));
  return checkpoint->path();
}

absl::Status Trainer::BroadcastState(const absl::Status& loaded) {
  // The root's error ends every rank with the same message and exit code.
  const int code = comm_.AllReduceValue(static_cast<int32_t>(ExitCodeOf(loaded)), ReduceOp::kMax);
  if (code != 0) {
    return loaded.ok()
               ? StorageError("the root rank could not load a checkpoint; its message says why")
               : loaded;
  }
  ParameterSet& parameters = task_.parameters();
  for (const Tensor& tensor :
       {parameters.weights(), adam_.first_moments(), adam_.second_moments(), adam_.average()}) {
    if (tensor) BroadcastTensors({{tensor}}, comm_, 0);
  }
  parameters.RefreshComputeWeights();
  static_assert(std::is_trivially_copyable_v<TrainState>);
  comm_.Broadcast(&state_, sizeof(state_), 0);
  adam_.set_steps(state_.optimizer_steps);
  loss_scaler_.Restore(state_.loss_scaler);
  task_.Seek(state_.position);
  resumed_seconds_ = state_.seconds;
  if (state_.step > 0) last_checkpoint_step_ = state_.step;
  return absl::OkStatus();
}

absl::StatusOr<TrainResult> Trainer::Run() {
  ctx_.set_training(true);
  clock_.Restart();
  elapsed_ = window_start_ = last_checkpoint_ = Elapsed();
  // A resumed run that is already complete must not make another update.
  std::string reason = EndReason({});
  if (reason.empty() && state_.evaluation_due) {
    DT_RETURN_IF_ERROR(DoPeriodic(Clock(), {}));
    reason = EndReason({});
  }
  while (reason.empty()) {
    const PeriodClock before = Clock();
    DT_ASSIGN_OR_RETURN(const Update update, RunUpdate());
    DT_RETURN_IF_ERROR(ApplyGradients(update));
    Record(update);
    if (++updates_here_ == kWarmUpUpdates) ReportMemory();
    state_.evaluation_due = PeriodPassed(options_.eval_every, before, Clock());
    reason = EndReason(update.requests);
    if (!reason.empty()) break;
    DT_RETURN_IF_ERROR(DoPeriodic(before, update.requests));
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

absl::StatusOr<Trainer::Update> Trainer::RunUpdate() {
  Update update;
  Timer timer;
  DT_ASSIGN_OR_RETURN(const int micro_batches, task_.NextUpdate());
  DT_CHECK(micro_batches >= 1 && micro_batches <= kMicroSteps);
  update.data_seconds = timer.Restart();
  update.source_tokens = static_cast<double>(task_.source_tokens());
  Backward(micro_batches, update);
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
  for (int i = 0; i < micro_batches; ++i) {
    ctx_.set_step(static_cast<uint32_t>(state_.step * kMicroSteps + i));
    update.sums += task_.Forward(i, static_cast<float>(GradientUnit()), ctx_);
    // Only the last micro-batch completes the gradients; the others accumulate.
    if (i == micro_batches - 1) {
      parameters.SetReadyListener(
          [&](const Parameter& parameter) { reducer_->MarkReady(parameter.index()); });
    }
    task_.Backward(ctx_);
  }
  parameters.SetReadyListener(nullptr);
  activation_peak_ = std::max(activation_peak_, static_cast<int64_t>(ctx_.activations().peak()));
}

void Trainer::ReportMemory() {
  if (options_.planned_activation_bytes == 0 || updates_here_ == 0) return;
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  Event("memory", absl::StrFormat("activations took %.1f MiB at most in %d updates, %.1f MiB were "
                                  "planned",
                                  mebibytes(activation_peak_), updates_here_,
                                  mebibytes(options_.planned_activation_bytes)));
}

void Trainer::ReduceSums(Update& update) {
  const bool checkpoint = stop_flags_ != nullptr && stop_flags_->checkpoint.exchange(false);
  const bool stop = stop_flags_ != nullptr && stop_flags_->stop;
  std::array<double, 7> sums = {update.sums.loss,
                                update.sums.nll,
                                static_cast<double>(update.sums.tokens),
                                update.source_tokens,
                                checkpoint ? 1.0 : 0.0,
                                stop ? 1.0 : 0.0,
                                comm_.is_root() ? Elapsed() : 0.0};
  reducer_->ReduceScalars(sums);
  update.sums = {sums[0], sums[1], static_cast<int64_t>(sums[2])};
  update.source_tokens = sums[3];
  update.requests = {.checkpoint = sums[4] > 0.0, .stop = sums[5] > 0.0};
  update.elapsed = sums[6];
}

absl::Status Trainer::ApplyGradients(const Update& update) {
  ParameterSet& parameters = task_.parameters();
  elapsed_ = update.elapsed;
  const double tokens = static_cast<double>(std::max<int64_t>(update.sums.tokens, 1));
  Tensor squares_tensor = ctx_.Empty({2}, DType::kFloat64);
  SumOfSquares(parameters.gradients(), squares_tensor, ctx_.stream());
  const std::vector<double> squares = Download<double>(squares_tensor, ctx_.stream());
  const double unit = tokens * GradientUnit();
  gradient_norm_ = std::sqrt(squares[0]) / unit;
  learning_rate_ = LearningRate(options_.learning_rate, state_.step, BudgetUsed());
  ++state_.step;
  state_.position = task_.position();
  state_.target_tokens += update.sums.tokens;
  state_.seconds = elapsed_;
  const bool overflow = squares[1] > 0.0 || !std::isfinite(squares[0]);
  loss_scaler_.Update(overflow);
  state_.loss_scaler = loss_scaler_.state();
  if (overflow) {
    ++state_.skipped;
    Event("skip", absl::StrFormat(
                      "the gradients hold NaN or infinity: the update is skipped%s",
                      options_.loss_scaler.on
                          ? absl::StrFormat(" and the loss scale is %g now", loss_scaler_.scale())
                          : ""));
    if (++skipped_in_a_row_ >= kMaxSkippedInARow) {
      return DivergedError(absl::StrFormat(
          "the gradients of %d updates in a row hold NaN or infinity (step %d, learning rate "
          "%.3g); "
          "resume from the last checkpoint with a lower optimizer.learning_rate, more "
          "optimizer.warmup_steps, or trainer.precision=fp32",
          kMaxSkippedInARow, state_.step, learning_rate_));
    }
    return absl::OkStatus();
  }
  skipped_in_a_row_ = 0;
  const double clip = options_.clip_norm > 0.0 && gradient_norm_ > options_.clip_norm
                          ? options_.clip_norm / gradient_norm_
                          : 1.0;
  adam_.Step(static_cast<float>(learning_rate_), static_cast<float>(clip / unit), ctx_.stream());
  state_.optimizer_steps = adam_.steps();
  return absl::OkStatus();
}

double Trainer::BudgetUsed() const {
  return options_.max_seconds > 0.0 ? elapsed_ / options_.max_seconds : 0.0;
}

void Trainer::Record(const Update& update) {
  window_.sums += update.sums;
  window_.source_tokens += update.source_tokens;
  window_.data_seconds += update.data_seconds;
  window_.comm_seconds += update.comm_seconds;
  ++window_updates_;
  if (state_.step % options_.log_every != 0) return;
  const double seconds = std::max(Elapsed() - window_start_, 1e-9);
  const double tokens = static_cast<double>(std::max<int64_t>(window_.sums.tokens, 1));
  const double step_seconds = seconds / static_cast<double>(window_updates_);
  const StepRecord record{.step = state_.step,
                          .max_steps = options_.max_steps,
                          .epoch = task_.epochs(),
                          .loss = window_.sums.loss / tokens,
                          .nll = window_.sums.nll / tokens,
                          .learning_rate = learning_rate_,
                          .gradient_norm = gradient_norm_,
                          .skipped = state_.skipped,
                          .target_tokens = state_.target_tokens,
                          .step_seconds = step_seconds,
                          .data_share = window_.data_seconds / seconds,
                          .comm_share = window_.comm_seconds / seconds,
                          .target_tokens_per_second = tokens / seconds,
                          .source_tokens_per_second = window_.source_tokens / seconds,
                          .seconds = elapsed_,
                          .eta_seconds = EtaSeconds(step_seconds)};
  window_ = Update();
  window_updates_ = 0;
  window_start_ = Elapsed();
  if (observer_ != nullptr) observer_->OnStep(record);
}

double Trainer::EtaSeconds(double step_seconds) const {
  double eta = std::numeric_limits<double>::infinity();
  if (options_.max_steps > 0) {
    eta = static_cast<double>(options_.max_steps - state_.step) * step_seconds;
  }
  if (options_.max_seconds > 0.0) eta = std::min(eta, options_.max_seconds - elapsed_);
  if (options_.max_epochs > 0 && task_.epochs() > 0.0) {
    const double left = static_cast<double>(options_.max_epochs) / task_.epochs() - 1.0;
    eta = std::min(eta, left * elapsed_);
  }
  return std::isfinite(eta) ? std::max(eta, 0.0) : -1.0;
}

PeriodClock Trainer::Clock() const {
  return {.updates = state_.step,
          .epochs = task_.epochs(),
          .tokens = state_.target_tokens,
          .seconds = elapsed_};
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

absl::Status Trainer::DoPeriodic(const PeriodClock& before, const Requests& requests) {
  const PeriodClock now = Clock();
  if (state_.evaluation_due) DT_RETURN_IF_ERROR(Evaluate());
  const bool overdue = options_.checkpoint_seconds > 0.0 &&
                       elapsed_ - last_checkpoint_ >= options_.checkpoint_seconds;
  // mpirun's signal reaches the ranks one after the other: that is one request, not one each.
  const bool requested = requests.checkpoint && elapsed_ - last_request_ > kSignalSpreadSeconds;
  if (requested) last_request_ = elapsed_;
  if (overdue || requested || PeriodPassed(options_.checkpoint_every, before, now) ||
      state_.best_step == state_.step) {
    checkpoint_due_ = true;
  }
  // Weights that give no finite gradients must not push good checkpoints out.
  if (!checkpoint_due_ || skipped_in_a_row_ > 0) return absl::OkStatus();
  return SaveCheckpoint();
}

absl::Status Trainer::Evaluate() {
  const double started = Elapsed();
  ctx_.set_training(false);
  adam_.SwapAverage(ctx_.stream());
  absl::StatusOr<EvaluationResult> result = task_.Evaluate(ctx_);
  adam_.SwapAverage(ctx_.stream());
  ctx_.set_training(true);
  DT_RETURN_IF_ERROR(result.status());
  last_evaluation_step_ = state_.step;
  state_.evaluation_due = false;
  const double value = result->Metric(options_.best_metric);
  const bool is_best =
      std::isfinite(value) &&
      (state_.best_step < 0 || Improves(options_.best_metric, value, state_.best_metric, 0.0));
  if (is_best) {
    state_.best_metric = value;
    state_.best_step = state_.step;
  }
  const EarlyStopOptions& early = options_.early_stop;
  const double watched = result->Metric(early.metric);
  if (early.patience > 0 && std::isfinite(watched) && state_.step >= early.min_steps) {
    if (state_.early_stop_step < 0 ||
        Improves(early.metric, watched, state_.early_stop_best, early.min_delta)) {
      state_.early_stop_best = watched;
      state_.early_stop_step = state_.step;
      state_.stalled_evaluations = 0;
    } else {
      ++state_.stalled_evaluations;
    }
  }
  result->seconds = Elapsed() - started;
  if (observer_ != nullptr) observer_->OnEvaluation({state_.step, &*result, is_best});
  last_evaluation_ = *std::move(result);
  // Evaluation is not training time: rates and budgets leave it out.
  resumed_seconds_ -= Elapsed() - started;
  return absl::OkStatus();
}

absl::StatusOr<EvaluationResult> Trainer::EvaluateTest() {
  ctx_.set_training(false);
  adam_.SwapAverage(ctx_.stream());
  absl::StatusOr<EvaluationResult> result = task_.EvaluateTest(ctx_);
  adam_.SwapAverage(ctx_.stream());
  return result;
}

absl::Status Trainer::SaveCheckpoint() {
  checkpoint_due_ = false;
  last_checkpoint_ = elapsed_;
  last_checkpoint_step_ = state_.step;
  if (options_.checkpoint_dir.empty()) return absl::OkStatus();
  absl::Status saved = comm_.is_root() ? WriteCheckpoint() : absl::OkStatus();
  const int code = comm_.AllReduceValue(static_cast<int32_t>(ExitCodeOf(saved)), ReduceOp::kMax);
  if (code == 0 || !saved.ok()) return saved;
  return StorageError("the root rank could not write a checkpoint; its message says why");
}

absl::Status Trainer::WriteCheckpoint() {
  DT_ASSIGN_OR_RETURN(
      CheckpointDirectory directory,
      CheckpointDirectory::Open(options_.checkpoint_dir, {.keep_last = options_.keep_last}));
  const std::vector<CheckpointFile> files =
      MakeCheckpointFiles(state_, task_.parameters(), adam_, task_.CheckpointFiles());
  DT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, directory.Save(state_.step, files));
  if (state_.best_step == state_.step) {
    DT_RETURN_IF_ERROR(directory.MarkBest(options_.best_metric, state_.step));
  }
  Event("checkpoint", absl::StrFormat("%s: %.1f MiB in %.2f s", saved.path,
                                      static_cast<double>(saved.bytes) / (1 << 20), saved.seconds));
  return absl::OkStatus();
}

absl::Status Trainer::Finish(const std::string& reason) {
  if (reason == "stop requested") {
    if (last_checkpoint_step_ != state_.step) DT_RETURN_IF_ERROR(SaveCheckpoint());
    Event("stop", "stopped on request with a good checkpoint");
    return StoppedError(absl::StrFormat(
        "stopped on request at step %d with a good checkpoint; the same command goes on from there",
        state_.step));
  }
  // The last weights are worth an evaluation and a checkpoint of their own.
  if (last_evaluation_step_ != state_.step) DT_RETURN_IF_ERROR(Evaluate());
  ctx_.set_training(false);
  if (last_checkpoint_step_ != state_.step) DT_RETURN_IF_ERROR(SaveCheckpoint());
  Event("stop", "the run is complete: " + reason);
  return absl::OkStatus();
}

void Trainer::Event(const std::string& kind, const std::string& text) {
  if (observer_ != nullptr) observer_->OnEvent(state_.step, kind, text);
}

}  // namespace dtrain
