// optimizer_shards.h - divides the optimizer among the ranks: each updates a shard of the weights.
// SPDX-License-Identifier: Apache-2.0
//
// This is ZeRO stage 1 (Rajbhandari et al. 2020, section 5.1, P_os). Adam's moments and the average
// of the weights take 1 / size of the memory on each rank. Weights and gradients stay whole. A rank
// receives the sums of its shard's gradients alone and updates its shard; then all ranks gather the
// weights. Together this moves as many bytes as an allreduce.
//
//   GradientReducer reducer(parameters, comm, {.scatter_block = OptimizerShards::BlockOn(device)});
//   OptimizerShards shards(parameters, comm, reducer);
//   Adam adam(parameters, config, shards.mine());
//   // each update, after reducer.Finish():
//   shards.SumOfSquares(squares, stream);  // of all gradients, the same on every rank
//   adam.Step(step, average_decay, stream);
//   shards.GatherWeights(stream);
//
// On CPUs of one host the weights have the same bits as with an optimizer that is not sharded. The
// same holds for hosts with the same power of two of ranks each, numbered host by host, except with
// a 16-bit wire type: an allreduce between hosts rounds once more.
//
// With trust ratios (LAMB) the norms of a parameter are added part by part: ratios differ by their
// rounding.
//
// On GPUs NCCL moves gradients and weights from GPU to GPU, and the host does not wait for the
// weights. The bits of the weights are those of an optimizer that is not sharded as long as two
// orders of addition agree. NCCL may add N ranks' float32 gradients in another order than in an
// allreduce: sums then differ by at most (N - 1) * 2^-23 of the sum of the magnitudes. The squares
// of the norm are added rank by rank, in double: a norm differs by less than 1e-12 of itself, and
// the factor that clips gradients by at most one rounding to float. Without NCCL, gradients and
// weights go through the host's memory.
#ifndef DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_
#define DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/reduce.h"
#include "dtrain/optim/adam.h"

namespace dtrain {

namespace internal {
class ShardExchange;
}  // namespace internal

// All ranks call every function that exchanges.
class OptimizerShards {
 public:
  // Shards are cut at multiples of this many elements. On CPUs sums of squares are then always
  // added in the same order. On GPUs it only keeps slices aligned: small blocks make even slices.
  static constexpr int64_t BlockOn(const Device& device) {
    return device.type == DeviceType::kCpu ? kSumBlock : 64;
  }

  // The reducer has the same parameters and scatter_block = BlockOn(their device). All of them
  // outlive this.
  OptimizerShards(ParameterSet& parameters, Communicator& comm, const GradientReducer& reducer);
  ~OptimizerShards();

  // The shard of this rank: a slice of every bucket.
  const std::vector<ParameterRange>& mine() const;
  // squares: [2] float64. Becomes SumOfSquares() (ops/reduce.h) of the gradients of all shards: on
  // CPUs bit for bit, on GPUs with the same bits on all ranks.
  void SumOfSquares(Tensor& squares, Stream& stream);
  // sums: float64, contiguous. Each element becomes the sum of all ranks' elements, in the order of
  // the stream and with the same bits on all ranks: for Adam's trust ratios.
  void AddOverRanks(Tensor& sums, Stream& stream);
  // Every rank gets the weights of all shards, and refreshes its compute weights. On GPUs later
  // work of `stream` sees them, while the host goes on.
  void GatherWeights(Stream& stream);
  // Waits for what SumOfSquares() and GatherWeights() began, with the communicator's time-out.
  // Otherwise a host that waits for its GPU would wait for ever for a rank that is gone.
  void Await();

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
  // A request of the root to all ranks.
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
  std::vector<std::vector<ParameterRange>> shards_;  // by rank
  std::unique_ptr<internal::ShardExchange> exchange_;
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_OPTIMIZER_SHARDS_H_
