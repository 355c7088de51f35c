// sharded_optimizer.h - each rank applies the summed gradients of its shard of the parameters.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_SHARDED_OPTIMIZER_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_SHARDED_OPTIMIZER_H_

#include <cstdint>
#include <functional>

#include "dtrain/distributed/internal/reduced_gradients.h"

namespace dtrain::internal {

// See distributed/optimizer_shards.h.
class ShardedOptimizer final : public ReducedGradients {
 public:
  ShardedOptimizer(const GradientStrategyOptions& options, const Replica& replica);

  Adam& optimizer() override { return adam_; }
  void SumOfSquares(Tensor& squares, Stream& stream) override;
  void GatherWeights(int64_t step, Stream& stream) override;
  Status OnRoot(const std::function<Status()>& work) override;
  OptimizerShards* shards() override { return &shards_; }

 private:
  OptimizerShards shards_;
  Adam adam_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_SHARDED_OPTIMIZER_H_
