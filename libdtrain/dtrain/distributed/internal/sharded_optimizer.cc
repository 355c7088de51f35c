// sharded_optimizer.cc - a reducer that scatters, and weights that are gathered again.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/sharded_optimizer.h"

#include "dtrain/nn/frozen_parameters.h"

namespace dtrain::internal {
namespace {

GradientReducerOptions Scattered(GradientReducerOptions options, const Device& device) {
  options.scatter_block = OptimizerShards::BlockOn(device);
  return options;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(const GradientStrategyOptions& options, const Replica& replica)
    : ReducedGradients(Scattered(options.reducer, replica.parameters.weights().device()), replica),
      shards_(replica.parameters, replica.comm, reducer()),
      adam_(replica.parameters, options.adam, shards_.mine(),
            [this](Tensor& sums, Stream& stream) { shards_.AddOverRanks(sums, stream); }) {}

void ShardedOptimizer::SumOfSquares(Tensor& squares, Stream& stream) {
  shards_.SumOfSquares(squares, stream);
}

void ShardedOptimizer::GatherWeights(int64_t step, Stream& stream) {
  const Timeline::Span span(replica_.timeline, "weights", kCommunicationLane, step);
  shards_.GatherWeights(stream);
  FrozenOf(replica_.parameters).Compose(stream);
}

Status ShardedOptimizer::OnRoot(const std::function<Status()>& work) {
  if (!replica_.comm.is_root()) {
    shards_.Serve(adam_);
    return OkStatus();
  }
  Status status = work();
  shards_.Dismiss();
  return status;
}

}  // namespace dtrain::internal
