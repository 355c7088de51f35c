// step_meter.cc - means over the updates since the last record.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_meter.h"

#include <algorithm>
#include <span>
#include <vector>

namespace dtrain {

std::optional<StepRecord> StepMeter::Add(const IssuedUpdate& update, const StepState& decided) {
  window_.loss += update.sums.loss + decided.loss;
  window_.nll += update.sums.nll + decided.nll;
  window_.tokens += update.sums.tokens;
  window_.source_tokens += update.source_tokens;
  window_.data_seconds += update.data_seconds;
  window_.comm_seconds += update.comm_seconds;
  ++window_.updates;
  if (log_every_ == 0 || update.step % log_every_ != 0) return std::nullopt;
  // The losses, and then the phases of each rank, with zeros where others have theirs.
  std::vector<double> sums(2 + kNumPhases * static_cast<size_t>(comm_.size()));
  sums[0] = window_.loss;
  sums[1] = window_.nll;
  const PhaseSeconds own = timeline_.TakePhases();
  std::copy(own.begin(), own.end(),
            sums.begin() + 2 + static_cast<int64_t>(kNumPhases) * comm_.rank());
  comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
  const double seconds = std::max(clock_.Seconds() - window_.start, 1e-9);
  const double tokens = static_cast<double>(std::max<int64_t>(window_.tokens, 1));
  StepRecord record{.step = update.step,
                    .epoch = update.epochs,
                    .loss = sums[0] / tokens,
                    .nll = sums[1] / tokens,
                    .learning_rate = update.learning_rate,
                    .gradient_norm = decided.gradient_norm,
                    .target_tokens = update.target_tokens,
                    .step_seconds = seconds / static_cast<double>(window_.updates),
                    .data_share = window_.data_seconds / seconds,
                    .comm_share = window_.comm_seconds / seconds,
                    .target_tokens_per_second = tokens / seconds,
                    .source_tokens_per_second = window_.source_tokens / seconds,
                    .seconds = update.seconds,
                    .updates = window_.updates};
  record.phases.resize(static_cast<size_t>(comm_.size()));
  auto from = sums.begin() + 2;
  for (PhaseSeconds& phases : record.phases) {
    std::copy(from, from + static_cast<int64_t>(kNumPhases), phases.begin());
    from += static_cast<int64_t>(kNumPhases);
  }
  Start();
  return record;
}

}  // namespace dtrain
