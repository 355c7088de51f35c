// gradient_strategy.cc - which strategy the options ask for, and what most of them have in common.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/gradient_strategy.h"

#include "dtrain/base/check.h"
#include "dtrain/distributed/internal/local_updates.h"
#include "dtrain/distributed/internal/sharded_optimizer.h"
#include "dtrain/distributed/internal/summed_gradients.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {

void GradientStrategy::SumOfSquares(Tensor& squares, Stream& stream) {
  dtrain::SumOfSquares(replica_.parameters.gradients(), squares, stream);
}

bool GradientStrategy::IsReplicaCheckDue(int64_t step, int64_t every) const {
  return replica_.comm.size() > 1 && every > 0 && step % every == 0;
}

Status GradientStrategy::OnRoot(const std::function<Status()>& work) {
  return replica_.comm.is_root() ? work() : OkStatus();
}

void AwaitWeights(GradientStrategy& strategy) {
  if (OptimizerShards* const shards = strategy.shards()) shards->Await();
}

void SwapAverage(GradientStrategy& strategy, int64_t step, Stream& stream) {
  if (!strategy.optimizer().average()) return;
  strategy.optimizer().SwapAverage(stream);
  strategy.GatherWeights(step, stream);
  AwaitWeights(strategy);
}

std::unique_ptr<GradientStrategy> MakeGradientStrategy(const GradientStrategyOptions& options,
                                                       const Replica& replica) {
  const bool has_peers = replica.comm.size() > 1;
  if (options.sync_every > 1 && has_peers) {
    DT_CHECK_EQ(options.reducer.power_sgd.rank, 0) << "ranks that update alone send no gradients";
    DT_CHECK(!options.shard_optimizer) << "ranks that update alone need all moments";
    return std::make_unique<internal::LocalUpdates>(options, replica);
  }
  if (options.shard_optimizer && has_peers) {
    return std::make_unique<internal::ShardedOptimizer>(options, replica);
  }
  return std::make_unique<internal::SummedGradients>(options, replica);
}

}  // namespace dtrain
