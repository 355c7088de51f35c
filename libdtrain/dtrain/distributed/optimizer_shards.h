// optimizer_shards.h - divides the optimizer among the ranks: each updates a shard of the weights.
// SPDX-License-Identifier: Apache-2.0
//
// This is ZeRO stage 1 (Rajbhandari et al. 2020, section 5.1, P_os). Adam's moments and the average
// of the weights take 1 / size of the memory on each rank. Weights and gradients stay whole. A rank
// receives the sums of its shard's gradients alone and updates its shard; then all ranks gather the
// weights. Together this moves as many bytes as an allreduce.
//
//   GradientReducer reducer(parameters, comm, {.scatter_block = OptimizerShards::kBlock});
//   OptimizerShards shards(parameters, comm, reducer);
//   Adam adam(parameters, config, shards.mine());
//   // each update, after reducer.Finish():
//   shards.SumOfSquares(squares, stream);  // of all gradients, the same on every rank
//   adam.Step(step, average_decay, stream);
//   shards.GatherWeights(stream);
//
// On one host the weights have the same bits as with an optimizer that is not sharded. The same
// holds for hosts with the same power of two of ranks each, numbered host by host, except with a
// 16-bit wire type: an allreduce between hosts rounds once more. It works on CPUs only.
#ifndef DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_
#define DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/reduce.h"
#include "dtrain/optim/adam.h"

namespace dtrain {

// All ranks call every function that exchanges.
class OptimizerShards {
 public:
  // Returns UsageError if the optimizer of this device cannot be sharded.
  static Status CheckDevice(const Device& device);
  // Shards are cut at multiples of it, so that sums of squares are always added in the same order.
  static constexpr int64_t kBlock = kSumBlock;

  // The reducer has the same parameters and scatter_block = kBlock. All of them outlive this.
  OptimizerShards(ParameterSet& parameters, Communicator& comm, const GradientReducer& reducer);

  // The shard of this rank: a slice of every bucket.
  const std::vector<ParameterRange>& mine() const;
  // squares: [2] float64. Becomes SumOfSquares() (ops/reduce.h) of the gradients of all shards, bit
  // for bit.
  void SumOfSquares(Tensor& squares, Stream& stream);
  // Every rank gets the weights of all shards, and refreshes its compute weights.
  void GatherWeights(Stream& stream);

  // For checkpoints. The root calls Fetch() and Store() any number of times and then Dismiss().
  // Meanwhile every other rank is in Serve(). The elements `range` of a sharded state go to the
  // root or come from it; `range` counts elements of the flat parameters, and `data` holds these
  // floats.
  enum class State : int32_t { kFirstMoments, kSecondMoments, kAverage };
  static Tensor& TensorOf(Adam& adam, State state);
  void Fetch(Adam& adam, State state, const ParameterRange& range, std::span<std::byte> data);
  void Store(Adam& adam, State state, const ParameterRange& range, std::span<const std::byte> data);
  void Dismiss();
  void Serve(Adam& adam);

 private:
  // What the root asks of all ranks.
  struct Order;
  // Elements that are contiguous both in the flat parameters and in a shard.
  struct Run {
    ParameterRange range;
    int64_t at = 0;  // place of the first one in the shard
  };

  std::vector<Run> RunsOf(int rank, const ParameterRange& range) const;
  std::vector<float> Gather(const Tensor& state, const ParameterRange& range);
  void Scatter(const Tensor& state, const ParameterRange& range, std::vector<float> packed);
  std::vector<int64_t> BytesByRank(const ParameterRange& range) const;

  ParameterSet& parameters_;
  Communicator& comm_;
  std::vector<std::vector<int64_t>> slices_;         // by bucket: SliceOffsets()
  std::vector<std::vector<ParameterRange>> shards_;  // by rank
  std::vector<double> block_sums_;                   // of all gradients
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_
