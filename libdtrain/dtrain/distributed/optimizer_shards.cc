// optimizer_shards.cc - which rank has what, and how it travels between ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/optimizer_shards.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/copy.h"
#include "dtrain/distributed/internal/shard_exchange.h"

namespace dtrain {

struct OptimizerShards::Order {
  enum class Verb : int32_t { kFetch, kStore, kDismiss };
  Verb verb = Verb::kDismiss;
  State state = State::kFirstMoments;
  ParameterRange range = {};
};

OptimizerShards::OptimizerShards(ParameterSet& parameters, Communicator& comm,
                                 const GradientReducer& reducer)
    : parameters_(parameters), comm_(comm), shards_(static_cast<size_t>(comm.size())) {
  std::vector<std::vector<int64_t>> slices;
  for (int bucket = 0; bucket < reducer.num_buckets(); ++bucket) {
    const std::vector<int64_t> offsets = reducer.SliceOffsets(bucket);
    for (size_t r = 0; r < shards_.size(); ++r) {
      if (offsets[r] < offsets[r + 1]) shards_[r].push_back({offsets[r], offsets[r + 1]});
    }
    if (offsets.front() < offsets.back()) slices.push_back(offsets);
  }
  exchange_ = internal::MakeShardExchange(parameters_, mine(), std::move(slices), comm_,
                                          reducer.gpus_.get());
}

OptimizerShards::~OptimizerShards() = default;

const std::vector<ParameterRange>& OptimizerShards::mine() const {
  return shards_[static_cast<size_t>(comm_.rank())];
}

void OptimizerShards::SumOfSquares(Tensor& squares, Stream& stream) {
  exchange_->SumOfSquares(squares, stream);
}

void OptimizerShards::AddOverRanks(Tensor& sums, Stream& stream) {
  exchange_->AddOverRanks(sums, stream);
}

void OptimizerShards::GatherWeights(Stream& stream) { exchange_->GatherWeights(stream); }

void OptimizerShards::Await() { exchange_->Await(); }

Tensor& OptimizerShards::TensorOf(Adam& adam, State state) {
  switch (state) {
    case State::kFirstMoments:
      return adam.first_moments();
    case State::kSecondMoments:
      return adam.second_moments();
    case State::kAverage:
      break;
  }
  return adam.average();
}

std::vector<OptimizerShards::Run> OptimizerShards::RunsOf(int rank,
                                                          const ParameterRange& range) const {
  std::vector<Run> runs;
  int64_t at = 0;
  for (const ParameterRange& part : shards_[static_cast<size_t>(rank)]) {
    const int64_t begin = std::max(part.begin, range.begin);
    const int64_t end = std::min(part.end, range.end);
    if (begin < end) runs.push_back({{begin, end}, at + begin - part.begin});
    at += part.elements();
  }
  return runs;
}

std::vector<int64_t> OptimizerShards::BytesByRank(const ParameterRange& range) const {
  std::vector<int64_t> offsets = {0};
  for (int rank = 0; rank < comm_.size(); ++rank) {
    int64_t elements = 0;
    for (const Run& run : RunsOf(rank, range)) elements += run.range.elements();
    offsets.push_back(offsets.back() + elements * static_cast<int64_t>(sizeof(float)));
  }
  return offsets;
}

std::vector<float> OptimizerShards::Gather(const Tensor& state, const ParameterRange& range) {
  SynchronizeDevice(state.device());
  Stream stream(state.device());
  std::vector<float> mine;
  for (const Run& run : RunsOf(comm_.rank(), range)) {
    const auto count = static_cast<size_t>(run.range.elements());
    mine.resize(mine.size() + count);
    CopyToHost(mine.data() + mine.size() - count, state.data<float>() + run.at,
               count * sizeof(float), stream);
  }
  std::vector<int64_t> sent(static_cast<size_t>(comm_.size()) + 1,
                            static_cast<int64_t>(mine.size() * sizeof(float)));
  sent[0] = 0;
  std::vector<int64_t> received(sent.size(), 0);
  if (comm_.is_root()) received = BytesByRank(range);
  std::vector<float> all(static_cast<size_t>(received.back()) / sizeof(float));
  comm_.StartAllToAllV(mine.data(), sent, all.data(), received)->Wait();
  return all;
}

void OptimizerShards::Scatter(const Tensor& state, const ParameterRange& range,
                              std::vector<float> packed) {
  const std::vector<int64_t> all = BytesByRank(range);
  const auto rank = static_cast<size_t>(comm_.rank());
  const int64_t bytes = all[rank + 1] - all[rank];
  std::vector<int64_t> received(all.size(), bytes);
  received[0] = 0;
  std::vector<float> mine(static_cast<size_t>(bytes) / sizeof(float));
  comm_
      .StartAllToAllV(packed.data(), comm_.is_root() ? all : std::vector<int64_t>(all.size(), 0),
                      mine.data(), received)
      ->Wait();
  Stream stream(state.device());
  const float* from = mine.data();
  for (const Run& run : RunsOf(comm_.rank(), range)) {
    CopyToDevice(state.data<float>() + run.at, from,
                 static_cast<size_t>(run.range.elements()) * sizeof(float), stream);
    from += run.range.elements();
  }
  stream.Synchronize();
}

void OptimizerShards::Fetch(Adam& adam, State state, const ParameterRange& range,
                            std::span<std::byte> data) {
  DT_CHECK_EQ(static_cast<size_t>(range.elements()) * sizeof(float), data.size());
  Order order{.verb = Order::Verb::kFetch, .state = state, .range = range};
  comm_.Broadcast(&order, sizeof(order), 0);
  const std::vector<float> packed = Gather(TensorOf(adam, state), range);
  const float* from = packed.data();
  for (int rank = 0; rank < comm_.size(); ++rank) {
    for (const Run& run : RunsOf(rank, range)) {
      std::memcpy(data.data() + (run.range.begin - range.begin) * sizeof(float), from,
                  static_cast<size_t>(run.range.elements()) * sizeof(float));
      from += run.range.elements();
    }
  }
}

void OptimizerShards::Store(Adam& adam, State state, const ParameterRange& range,
                            std::span<const std::byte> data) {
  DT_CHECK_EQ(static_cast<size_t>(range.elements()) * sizeof(float), data.size());
  Order order{.verb = Order::Verb::kStore, .state = state, .range = range};
  comm_.Broadcast(&order, sizeof(order), 0);
  std::vector<float> packed(static_cast<size_t>(range.elements()));
  float* to = packed.data();
  for (int rank = 0; rank < comm_.size(); ++rank) {
    for (const Run& run : RunsOf(rank, range)) {
      std::memcpy(to, data.data() + (run.range.begin - range.begin) * sizeof(float),
                  static_cast<size_t>(run.range.elements()) * sizeof(float));
      to += run.range.elements();
    }
  }
  Scatter(TensorOf(adam, state), range, std::move(packed));
}

void OptimizerShards::Dismiss() {
  Order order{.verb = Order::Verb::kDismiss};
  comm_.Broadcast(&order, sizeof(order), 0);
}

void OptimizerShards::Serve(Adam& adam) {
  for (;;) {
    Order order;
    comm_.Broadcast(&order, sizeof(order), 0);
    switch (order.verb) {
      case Order::Verb::kFetch:
        Gather(TensorOf(adam, order.state), order.range);
        break;
      case Order::Verb::kStore:
        Scatter(TensorOf(adam, order.state), order.range, {});
        break;
      case Order::Verb::kDismiss:
        return;
    }
  }
}

}  // namespace dtrain
