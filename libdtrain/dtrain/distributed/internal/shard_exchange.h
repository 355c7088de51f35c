// shard_exchange.h - the norm of gradients and the weights whose parts lie on all ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_SHARD_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_SHARD_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain::internal {

// The functions of OptimizerShards (distributed/optimizer_shards.h) with these names.
class ShardExchange {
 public:
  virtual ~ShardExchange() = default;
  virtual void SumOfSquares(Tensor& squares, Stream& stream) = 0;
  virtual void AddOverRanks(Tensor& sums, Stream& stream) = 0;
  virtual void GatherWeights(Stream& stream) = 0;
  virtual void Await() {}
};

// mine: this rank's shard. slices: of each bucket that is not empty, where the ranks' slices begin
// and the last one ends. gpus: null on CPUs, and if what is on GPUs goes through the host's memory.
// All references outlive the exchange.
std::unique_ptr<ShardExchange> MakeShardExchange(ParameterSet& parameters,
                                                 const std::vector<ParameterRange>& mine,
                                                 std::vector<std::vector<int64_t>> slices,
                                                 Communicator& comm, DeviceCommunicator* gpus);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_SHARD_EXCHANGE_H_
