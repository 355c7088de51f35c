// trainer_exchange.cc - what ways of exchanging add to the loop: rounds, memories, equal replicas.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/distributed/internal/local_updates.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/distributed/replica_check.h"
#include "dtrain/train/trainer.h"

namespace dtrain {

std::unique_ptr<GradientReducer> Trainer::MakeReducer(Communicator& comm) {
  GradientReducerOptions options = options_.reducer;
  options.stream = ctx_.stream();
  if (options_.shard_optimizer) options.scatter_block = OptimizerShards::kBlock;
  auto reducer = std::make_unique<GradientReducer>(task_.parameters(), comm, options);
  reducer->SetGradientScale(step_.loss_scale());
  reducer->set_timeline(&timeline_.spans());
  return reducer;
}

Status Trainer::TellReducer() {
  const int64_t tokens = task_.global_tokens();
  if (tokens == 0 && options_.reducer.power_sgd.rank > 0) {
    return UsageError(
        "PowerSGD (reducer.power_sgd) weighs what it remembers by the tokens of an update, and the "
        "task does not give them: override TrainingTask::global_tokens(), or set power_sgd.rank "
        "to 0");
  }
  if (tokens > 0) reducer_->SetGradientTokens(static_cast<double>(tokens));
  return OkStatus();
}

void Trainer::WarnOfLateStarts() const {
  if (planned_end_ == 0 || comm_.size() == 1 || !comm_.is_root()) return;
  const auto warn = [&](std::string_view key, int64_t start, std::string_view loss) {
    if (start < planned_end_) return;
    LogWarning(absl::StrFormat("trainer.%s=%d, but this run ends after %d updates: %s; lower it",
                               key, start, planned_end_, loss));
  };
  const PowerSgdOptions& compression = options_.reducer.power_sgd;
  if (compression.rank > 0) {
    warn("power_sgd_start", compression.start_step, "all gradients travel whole");
  }
  if (options_.sync_every > 1) {
    warn("sync_every_start", options_.sync_every_start, "ranks never update alone");
  }
}

bool Trainer::AreRoundsDue(int64_t step) const {
  return options_.sync_every > 1 && comm_.size() > 1 && step >= options_.sync_every_start;
}

Status Trainer::BeginRounds() {
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));  // all ranks' updates, which no round counts
  // Rounds wait for the whole device, on which ranks of this process may yet record an update.
  comm_.Barrier();
  rounds_ = std::make_unique<internal::LocalUpdates>(options_.sync_every, task_.parameters(), adam_,
                                                     comm_);
  if (options_.sync_every_start == 0) return OkStatus();
  reducer_ = MakeReducer(alone_);
  Event("rounds", absl::StrFormat("from here on ranks update alone and take their mean every %d "
                                  "updates",
                                  options_.sync_every));
  return OkStatus();
}

bool Trainer::IsInRound() const { return rounds_ && rounds_->is_open(); }

Status Trainer::EndRound() {
  if (!IsInRound()) return OkStatus();
  DT_RETURN_IF_ERROR(Collect(/*all=*/true));
  {
    const Timeline::Span span(timeline_.spans(), "round mean", kCommunicationLane, state_.step);
    rounds_->Average();
  }
  // Each rank skipped and scaled by itself. From here on all do the same: the larger step has the
  // smaller bias correction, and a scale that one rank found too large is too large.
  std::array<int64_t, 3> most = {state_.optimizer_steps, state_.skipped, skipped_in_a_row_};
  comm_.AllReduce(std::span<int64_t>(most), ReduceOp::kMax);
  std::array<double, 2> least = {state_.loss_scaler.scale,
                                 static_cast<double>(state_.loss_scaler.good_updates)};
  comm_.AllReduce(std::span<double>(least), ReduceOp::kMin);
  state_.optimizer_steps = most[0];
  state_.skipped = most[1];
  skipped_in_a_row_ = static_cast<int>(most[2]);
  state_.loss_scaler = {.scale = least[0], .good_updates = static_cast<int64_t>(least[1])};
  adam_.set_steps(state_.optimizer_steps);
  step_.Reset(state_.loss_scaler, state_.optimizer_steps, ctx_.stream());
  return CheckDiverged(state_.step, RateOf(state_.step - 1));
}

Trainer::Requests Trainer::TakeRequests(const Requests& requests) {
  requests_.checkpoint = requests_.checkpoint || requests.checkpoint;
  requests_.stop = requests_.stop || requests.stop;
  return IsInRound() ? Requests() : std::exchange(requests_, {});
}

Status Trainer::CheckReplicasNow() {
  int64_t every = options_.replica_check_every;
  int64_t step = state_.step;
  // Within a round the weights differ.
  if (rounds_) {
    every = (every + options_.sync_every - 1) / options_.sync_every * options_.sync_every;
    step -= options_.sync_every_start;
  }
  if (comm_.size() == 1 || every == 0 || step % every != 0) return OkStatus();
  return CheckReplicas(task_.parameters(), absl::StrFormat("after update %d", state_.step), comm_,
                       ctx_.stream());
}

Status Trainer::RestorePowerSgd(const std::string& path) {
  internal::PowerSgdMemory* const memory = reducer_->power_sgd_memory();
  if (memory == nullptr) {
    if (comm_.is_root() && internal::HasMemory(path)) {
      const PowerSgdOptions& options = options_.reducer.power_sgd;
      const std::string why =
          options.rank == 0   ? "this run does not compress gradients"
          : comm_.size() == 1 ? "gradients of one rank travel nowhere"
          : state_.step < options.start_step
              ? absl::StrFormat("this run compresses gradients from update %d on",
                                options.start_step)
              : "no matrix shrinks at this rank";
      Event("resume", why + ": PowerSGD's error memory is dropped");
    }
    return OkStatus();
  }
  DT_ASSIGN_OR_RETURN(const std::string note, internal::RestoreMemory(path, comm_, *memory));
  if (!note.empty()) Event("resume", note);
  return OkStatus();
}

}  // namespace dtrain
