// local_updates.h - ranks update alone and average their weights every few updates.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/distributed/internal/local_update_average.h"
#include "dtrain/distributed/internal/reduced_gradients.h"

namespace dtrain::internal {

// Gradients are summed over all ranks until update sync_every_start. How ranks average afterwards
// stands in distributed/internal/local_update_average.h.
class LocalUpdates final : public ReducedGradients {
 public:
  LocalUpdates(const GradientStrategyOptions& options, const Replica& replica);

  Adam& optimizer() override { return adam_; }
  // A rank without data leaves its weights and moments as they are.
  int64_t CountTokens(int64_t own, int64_t all) override;
  bool StartsLocalUpdates(int64_t step) const override { return !average_ && step >= start_; }
  std::string StartLocalUpdates() override;
  void DiscountTokens(int64_t own) override;
  bool HasEqualReplicas() const override { return !average_ || !average_->is_pending(); }
  bool IsAverageDue(int64_t step) const override;
  void AverageReplicas(int64_t step) override;
  bool IsReplicaCheckDue(int64_t step, int64_t every) const override;
  void WarnOfLateStart(int64_t planned_end) const override;

 private:
  int64_t length_;  // updates between two averages
  int64_t start_;   // updates before the first local one
  Adam adam_;
  std::optional<LocalUpdateAverage> average_;  // once local updates have started
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_
