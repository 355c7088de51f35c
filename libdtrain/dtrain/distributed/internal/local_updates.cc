// local_updates.cc - when ranks update alone, and when they average.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/local_updates.h"

#include "absl/strings/str_format.h"

namespace dtrain::internal {

LocalUpdates::LocalUpdates(const GradientStrategyOptions& options, const Replica& replica)
    : ReducedGradients(options.reducer, replica, /*alone=*/options.sync_every_start == 0),
      length_(options.sync_every),
      start_(options.sync_every_start),
      adam_(replica.parameters, options.adam) {}

int64_t LocalUpdates::CountTokens(int64_t own, int64_t all) {
  if (!average_) return all;
  average_->Count(own);
  return own;
}

std::string LocalUpdates::StartLocalUpdates() {
  const Replica& all = replica_;
  // The average waits for the whole device, on which ranks of this process may still record an
  // update.
  all.comm.Barrier();
  average_.emplace(length_, all.parameters, adam_, all.comm);
  if (start_ == 0) return "";
  ReduceAlone();
  return absl::StrFormat("from here on ranks update alone and take their mean every %d updates",
                         length_);
}

void LocalUpdates::DiscountTokens(int64_t own) {
  if (average_) average_->Discount(own);
}

bool LocalUpdates::IsAverageDue(int64_t step) const {
  return average_ && average_->EndsAt(step - start_);
}

void LocalUpdates::AverageReplicas(int64_t step) {
  const Timeline::Span span(replica_.timeline, "weight mean", kCommunicationLane, step);
  average_->Average();
}

bool LocalUpdates::IsReplicaCheckDue(int64_t step, int64_t every) const {
  if (!average_) return ReducedGradients::IsReplicaCheckDue(step, every);
  // Only right after an average are the weights equal.
  const int64_t rounded_up = (every + length_ - 1) / length_ * length_;
  return ReducedGradients::IsReplicaCheckDue(step - start_, rounded_up);
}

void LocalUpdates::WarnOfLateStart(int64_t planned_end) const {
  WarnIfLate("sync_every_start", start_, "ranks never update alone", planned_end);
}

}  // namespace dtrain::internal
