// shard_exchange.cc - by NCCL between GPUs, or by the communicator in the host's memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/shard_exchange.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/distributed/internal/bucket_exchange.h"
#include "dtrain/distributed/internal/device_slices.h"
#include "dtrain/distributed/internal/host_gradients.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/reduce.h"

namespace dtrain::internal {
namespace {

// squares becomes the sums of this rank's gradients alone.
void SumOwnSquares(ParameterSet& parameters, const std::vector<ParameterRange>& mine,
                   Tensor& squares, Stream& stream) {
  Zero(squares, stream);
  for (const ParameterRange& range : mine) {
    AccumulateSumOfSquares(parameters.gradients().Rows(range.begin, range.end), squares, stream);
  }
}

// The weights of a bucket have come.
void RefreshCopies(ParameterSet& parameters, const std::vector<int64_t>& slices, Stream& stream) {
  if (!parameters.compute_weights()) return;
  Tensor copy = parameters.compute_weights().Rows(slices.front(), slices.back());
  Cast(parameters.weights().Rows(slices.front(), slices.back()), copy, stream);
}

// For CPUs, and for GPUs without NCCL.
class HostShardExchange final : public ShardExchange {
 public:
  HostShardExchange(ParameterSet& parameters, const std::vector<ParameterRange>& mine,
                    std::vector<std::vector<int64_t>> slices, Communicator& comm)
      : parameters_(parameters),
        mine_(mine),
        slices_(std::move(slices)),
        comm_(comm),
        on_gpu_(parameters.weights().device().type == DeviceType::kCuda) {}

  void SumOfSquares(Tensor& squares, Stream& stream) override {
    if (!on_gpu_) return SumOfBlocks(squares, stream);
    SumOwnSquares(parameters_, mine_, squares, stream);
    AddOverRanks(squares, stream);
  }

  void AddOverRanks(Tensor& sums, Stream& stream) override {
    std::vector<double> values = Download<double>(sums, stream);
    comm_.AllReduce(std::span(values), ReduceOp::kSum);
    Upload<double>(values, sums, stream);
  }

  void GatherWeights(Stream& stream) override {
    // Weights in the host's memory are what gradients are there: on CPUs the tensor itself.
    if (!weights_) weights_.emplace(parameters_.weights(), stream);
    for (const ParameterRange& range : mine_) weights_->Fetch({range.begin, range.end});
    std::vector<std::unique_ptr<Handle>> handles;
    for (const std::vector<int64_t>& slices : slices_) {
      std::vector<int64_t> bytes;
      for (const int64_t offset : slices) {
        bytes.push_back((offset - slices[0]) * static_cast<int64_t>(sizeof(float)));
      }
      handles.push_back(comm_.StartAllGatherV(weights_->data() + slices[0], bytes));
    }
    for (size_t i = 0; i < handles.size(); ++i) {
      handles[i]->Wait();
      weights_->Return({slices_[i].front(), slices_[i].back()});
      if (on_gpu_) RunBehind(stream, weights_->stream());
      RefreshCopies(parameters_, slices_[i], stream);
    }
    weights_->Synchronize();
  }

 private:
  // In the order of additions that a CPU has without shards.
  void SumOfBlocks(Tensor& squares, Stream& stream) {
    const int64_t blocks = (parameters_.size() + kSumBlock - 1) / kSumBlock;
    // The parts of other ranks are 0 here, so that a sum over ranks is a gather.
    block_sums_.assign(static_cast<size_t>(2 * blocks), 0.0);
    Tensor all(block_sums_.data(), {blocks, 2}, DType::kFloat64);
    for (const ParameterRange& range : mine_) {
      Tensor own = all.Rows(range.begin / kSumBlock, (range.end + kSumBlock - 1) / kSumBlock);
      BlockSumsOfSquares(parameters_.gradients().Rows(range.begin, range.end), own, stream);
    }
    comm_.AllReduce(std::span(block_sums_), ReduceOp::kSum);
    TotalOfBlocks(all, squares);
  }

  ParameterSet& parameters_;
  const std::vector<ParameterRange>& mine_;
  std::vector<std::vector<int64_t>> slices_;
  Communicator& comm_;
  bool on_gpu_;
  std::vector<double> block_sums_;  // of all gradients
  std::optional<HostGradients> weights_;
};

class DeviceShardExchange final : public ShardExchange {
 public:
  DeviceShardExchange(ParameterSet& parameters, const std::vector<ParameterRange>& mine,
                      std::vector<std::vector<int64_t>> slices, DeviceCommunicator& gpus)
      : parameters_(parameters), mine_(mine), slices_(std::move(slices)), gpus_(gpus) {}

  void SumOfSquares(Tensor& squares, Stream& stream) override {
    SumOwnSquares(parameters_, mine_, squares, stream);
    AddOverRanks(squares, stream);
  }

  void AddOverRanks(Tensor& sums, Stream& stream) override {
    RunBehind(gpus_.stream(), stream);
    gpus_.AllReduce(sums.raw(), sums.elements(), DType::kFloat64, ReduceOp::kSum);
    RunBehind(stream, gpus_.stream());
    has_issued_ = true;
  }

  void GatherWeights(Stream& stream) override {
    RunBehind(gpus_.stream(), stream);
    for (const std::vector<int64_t>& slices : slices_) {
      const Tensor weights = parameters_.weights().Rows(slices.front(), slices.back());
      gpus_.Group([&] { GatherSlices(weights, slices, gpus_); });
      // The next bucket travels while this one is rounded.
      RunBehind(stream, gpus_.stream());
      RefreshCopies(parameters_, slices, stream);
    }
    has_issued_ = true;
  }

  void Await() override {
    if (std::exchange(has_issued_, false)) gpus_.Wait();
  }

 private:
  ParameterSet& parameters_;
  const std::vector<ParameterRange>& mine_;
  std::vector<std::vector<int64_t>> slices_;
  DeviceCommunicator& gpus_;
  bool has_issued_ = false;  // since the last Await()
};

}  // namespace

std::unique_ptr<ShardExchange> MakeShardExchange(ParameterSet& parameters,
                                                 const std::vector<ParameterRange>& mine,
                                                 std::vector<std::vector<int64_t>> slices,
                                                 Communicator& comm, DeviceCommunicator* gpus) {
  if (gpus == nullptr) {
    return std::make_unique<HostShardExchange>(parameters, mine, std::move(slices), comm);
  }
  return std::make_unique<DeviceShardExchange>(parameters, mine, std::move(slices), *gpus);
}

}  // namespace dtrain::internal
