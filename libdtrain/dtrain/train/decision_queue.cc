// decision_queue.cc - what follows from skipped updates: counts, scales, the end of a run.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/decision_queue.h"

#include <array>
#include <span>

#include "absl/strings/str_format.h"

namespace dtrain {
namespace {

// After this many skipped updates in a row a run has diverged for good.
constexpr int kMaxSkippedInARow = 20;

}  // namespace

DecisionQueue::DecisionQueue(Context& ctx, const StepRules& rules)
    : ctx_(ctx), rules_(rules), step_(ctx.device(), rules), ring_(ctx.device()) {
  step_.Reset(InitialLossScale(rules.loss_scaler), 0, ctx.stream());
}

void DecisionQueue::Push(const IssuedUpdate& update) {
  ring_.Push(step_, ctx_.stream());
  issued_.push_back(update);
}

std::optional<DecidedUpdate> DecisionQueue::Pop(bool all) {
  if (all ? ring_.empty() : !ring_.is_due()) return std::nullopt;
  const DecidedUpdate result{issued_.front(), ring_.Pop()};
  issued_.pop_front();
  const StepState& decided = result.decided;
  loss_scaler_ = decided.loss_scaler;
  optimizer_steps_ = decided.optimizer_steps;
  if (decided.inputs.tokens == 0.0) return result;  // there was nothing to learn from
  skipped_ += decided.skipped;
  skipped_in_a_row_ = decided.skipped == 0 ? 0 : skipped_in_a_row_ + 1;
  return result;
}

void DecisionQueue::AgreeAcrossRanks(Communicator& comm) {
  std::array<int64_t, 3> most = {optimizer_steps_, skipped_, skipped_in_a_row_};
  comm.AllReduce(std::span<int64_t>(most), ReduceOp::kMax);
  std::array<double, 2> least = {loss_scaler_.scale,
                                 static_cast<double>(loss_scaler_.good_updates)};
  comm.AllReduce(std::span<double>(least), ReduceOp::kMin);
  optimizer_steps_ = most[0];
  skipped_ = most[1];
  skipped_in_a_row_ = static_cast<int>(most[2]);
  loss_scaler_ = {.scale = least[0], .good_updates = static_cast<int64_t>(least[1])};
  step_.Reset(loss_scaler_, optimizer_steps_, ctx_.stream());
}

bool DecisionQueue::HasRecentOverflows() const {
  // One or two halvings repair a scale that grew too large; a single skipped update may be due to
  // an odd batch.
  const bool may_be_scale =
      rules_.loss_scaler.on && loss_scaler_.scale > rules_.loss_scaler.minimum;
  // Weights of a checkpoint that no update has changed are as good as they were. Nothing is known
  // of the weights of a new run, but its scale may still be too large.
  const bool is_unchanged = optimizer_steps_ == restored_steps_;
  const bool may_be_good = is_unchanged && (restored_steps_ > 0 || may_be_scale);
  return skipped_in_a_row_ > (may_be_scale ? 2 : 1) && !may_be_good;
}

Status DecisionQueue::CheckDiverged(int64_t step, double learning_rate,
                                    int64_t last_checkpoint) const {
  if (skipped_in_a_row_ < kMaxSkippedInARow) return OkStatus();
  // No update since the first skipped one has shown that the weights were good.
  const bool is_last_doubtful = last_checkpoint >= 0 && last_checkpoint >= step - skipped_in_a_row_;
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
                            last_checkpoint)
          : ""));
}

void DecisionQueue::Save(TrainState& state) const {
  state.loss_scaler = loss_scaler_;
  state.optimizer_steps = optimizer_steps_;
  state.skipped = skipped_;
}

void DecisionQueue::Restore(const TrainState& state) {
  loss_scaler_ = RestoreLossScale(rules_.loss_scaler, state.loss_scaler);
  optimizer_steps_ = restored_steps_ = state.optimizer_steps;
  skipped_ = state.skipped;
  step_.Reset(loss_scaler_, optimizer_steps_, ctx_.stream());
}

}  // namespace dtrain
