// optimizer_shards.h - each rank updates a shard of the parameters and keeps its moments alone.
// SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 1 (Rajbhandari et al. 2020, section 5.1, P_os): Adam's moments, and the average of the
// weights, take 1 / size of the memory on each rank. Weights and gradients stay whole. A rank
// receives the sums of its shard's gradients alone, updates it, and all ranks gather the weights:
// the bytes of an allreduce.
//
//   GradientReducer reducer(parameters, comm, {.scatter_block = OptimizerShards::kBlock});
//   OptimizerShards shards(parameters, comm, reducer);
//   Adam adam(parameters, config, shards.mine());
//   // each update, after reducer.Finish():
//   shards.SumOfSquares(squares, stream);  // of all gradients, the same on every rank
//   adam.Step(step, average_decay, stream);
//   shards.GatherWeights(stream);
//
// Ranks of one host get the bits of an optimizer that is not sharded, and so do hosts with the same
// power of two of ranks each, numbered host by host, unless the wire type has 16 bits: an allreduce
// between such hosts rounds once more. On CPUs.
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

// Every function that exchanges is called by all ranks.
class OptimizerShards {
 public:
  // UsageError where the optimizer of a device cannot be sharded.
  static Status CheckDevice(const Device& device);
  // Shards are cut at multiples of it, so that the sums of squares are added in one order.
  static constexpr int64_t kBlock = kSumBlock;

  // reducer: of the same parameters, made with scatter_block = kBlock. All outlive this.
  OptimizerShards(ParameterSet& parameters, Communicator& comm, const GradientReducer& reducer);

  // The part of this rank: a slice of every bucket.
  const std::vector<ParameterRange>& mine() const;
  // squares: [2], float64 = SumOfSquares() (ops/reduce.h) of the gradients of all shards, bit for
  // bit.
  void SumOfSquares(Tensor& squares, Stream& stream);
  // Every rank gets the weights of all shards, and refreshes its compute weights.
  void GatherWeights(Stream& stream);

  // For checkpoints. The root calls Fetch() and Store() as often as it wants and then Dismiss();
  // meanwhile every other rank is in Serve(). Of a sharded state the elements `range` of the flat
  // parameters go to the root, or come from it: `data` holds that many floats.
  enum class State : int32_t { kFirstMoments, kSecondMoments, kAverage };
  static Tensor& TensorOf(Adam& adam, State state);
  void Fetch(Adam& adam, State state, const ParameterRange& range, std::span<std::byte> data);
  void Store(Adam& adam, State state, const ParameterRange& range, std::span<const std::byte> data);
  void Dismiss();
  void Serve(Adam& adam);

 private:
  // What the root wants of all.
  struct Order;
  // Elements that are in a row both in the flat parameters and in a shard.
  struct Run {
    ParameterRange range;
    int64_t at = 0;  // of the first one in the shard
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
