// reduced_gradients.h - the part of all gradient strategies that hands gradients to a reducer.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_REDUCED_GRADIENTS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_REDUCED_GRADIENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/gradient_strategy.h"

namespace dtrain::internal {

class ReducedGradients : public GradientStrategy {
 public:
  Status BeginUpdate(int64_t tokens) override;
  void ListenTo(const std::function<void()>& backward) override;
  void MarkAllReady() override;
  void FinishGradients() override { reducer_->Finish(); }
  void WarnOfLateStart(int64_t planned_end) const override;
  std::vector<CheckpointFile> CheckpointFiles() override;
  StatusOr<std::string> Resume(const std::string& path, int64_t step) override;

 protected:
  // Sums gradients over all ranks, or keeps each rank's own from the start (`alone`).
  ReducedGradients(const GradientReducerOptions& options, const Replica& replica,
                   bool alone = false);

  const GradientReducer& reducer() const { return *reducer_; }
  // Each rank keeps its own gradients from now on. Not between ListenTo() and FinishGradients().
  void ReduceAlone() { ReduceOver(alone_); }
  // Warns if `key`, which starts after update `start`, has no effect before the run ends.
  void WarnIfLate(std::string_view key, int64_t start, std::string_view consequence,
                  int64_t planned_end) const;

 private:
  void ReduceOver(Communicator& comm);
  // Why PowerSGD has no memory for a checkpoint's, after update `step`.
  std::string WhyNoMemory(int64_t step) const;

  GradientReducerOptions options_;
  SelfCommunicator alone_;
  std::unique_ptr<GradientReducer> reducer_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_REDUCED_GRADIENTS_H_
