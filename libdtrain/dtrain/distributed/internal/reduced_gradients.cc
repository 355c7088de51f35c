// reduced_gradients.cc - gradients to the reducer, PowerSGD's memory to and from checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/reduced_gradients.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"

namespace dtrain::internal {

ReducedGradients::ReducedGradients(const GradientReducerOptions& options, const Replica& replica,
                                   bool alone)
    : GradientStrategy(replica), options_(options) {
  ReduceOver(alone ? alone_ : replica.comm);
}

void ReducedGradients::ReduceOver(Communicator& comm) {
  reducer_ = std::make_unique<GradientReducer>(replica_.parameters, comm, options_);
  reducer_->SetGradientScale(replica_.gradient_scale);
  reducer_->set_timeline(&replica_.timeline);
}

Status ReducedGradients::BeginUpdate(int64_t tokens) {
  if (tokens == 0 && options_.power_sgd.rank > 0) {
    return UsageError(
        "PowerSGD (reducer.power_sgd) weighs what it remembers by the tokens of an update, and the "
        "task does not give them: give BatchInfo::global_tokens in TrainingTask::batch(), or set "
        "power_sgd.rank to 0");
  }
  if (tokens > 0) reducer_->SetGradientTokens(static_cast<double>(tokens));
  return OkStatus();
}

void ReducedGradients::ListenTo(const std::function<void()>& backward) {
  reducer_->Listen();
  backward();
  reducer_->StopListening();
}

void ReducedGradients::MarkAllReady() {
  for (const Parameter* parameter : replica_.parameters.in_backward_order()) {
    reducer_->MarkReady(parameter->index());
  }
}

void ReducedGradients::WarnOfLateStart(int64_t planned_end) const {
  if (options_.power_sgd.rank == 0) return;
  WarnIfLate("power_sgd_start", options_.power_sgd.start_step, "all gradients travel whole",
             planned_end);
}

void ReducedGradients::WarnIfLate(std::string_view key, int64_t start, std::string_view consequence,
                                  int64_t planned_end) const {
  const Communicator& comm = replica_.comm;
  if (planned_end == 0 || start < planned_end || comm.size() == 1 || !comm.is_root()) return;
  LogWarning(absl::StrFormat("trainer.%s=%d, but this run ends after %d updates: %s; lower it", key,
                             start, planned_end, consequence));
}

std::vector<CheckpointFile> ReducedGradients::CheckpointFiles() {
  std::vector<CheckpointFile> files;
  if (const PowerSgdMemory* const memory = PowerSgdMemoryOf(*reducer_)) {
    files.push_back(GatherMemory(*memory, replica_.comm));
  }
  return files;
}

StatusOr<std::string> ReducedGradients::Resume(const std::string& path, int64_t step) {
  reducer_->SetStep(step);
  PowerSgdMemory* const memory = PowerSgdMemoryOf(*reducer_);
  if (memory != nullptr) {
    DT_ASSIGN_OR_RETURN(std::string note, RestoreMemory(path, replica_.comm, *memory));
    PutPowerSgdMemory(*reducer_);
    return note;
  }
  if (!replica_.comm.is_root() || !HasMemory(path)) return "";
  return WhyNoMemory(step) + ": PowerSGD's error memory is dropped";
}

std::string ReducedGradients::WhyNoMemory(int64_t step) const {
  const PowerSgdOptions& options = options_.power_sgd;
  if (options.rank == 0) return "this run does not compress gradients";
  if (replica_.comm.size() == 1) return "gradients of one rank travel nowhere";
  if (step < options.start_step) {
    return absl::StrFormat("this run compresses gradients from update %d on", options.start_step);
  }
  return "no matrix shrinks at this rank";
}

}  // namespace dtrain::internal
