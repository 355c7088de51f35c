// step_meter.cc - means over the updates since the last record.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_meter.h"

#include <algorithm>
#include <array>
#include <span>

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
  std::array<double, 2> losses = {window_.loss, window_.nll};
  comm_.AllReduce(std::span<double>(losses), ReduceOp::kSum);
  const double seconds = std::max(clock_.Seconds() - window_.start, 1e-9);
  const double tokens = static_cast<double>(std::max<int64_t>(window_.tokens, 1));
  const StepRecord record{.step = update.step,
                          .epoch = update.epochs,
                          .loss = losses[0] / tokens,
                          .nll = losses[1] / tokens,
                          .learning_rate = update.learning_rate,
                          .gradient_norm = decided.gradient_norm,
                          .target_tokens = update.target_tokens,
                          .step_seconds = seconds / static_cast<double>(window_.updates),
                          .data_share = window_.data_seconds / seconds,
                          .comm_share = window_.comm_seconds / seconds,
                          .target_tokens_per_second = tokens / seconds,
                          .source_tokens_per_second = window_.source_tokens / seconds,
                          .seconds = update.seconds};
  Start();
  return record;
}

}  // namespace dtrain
