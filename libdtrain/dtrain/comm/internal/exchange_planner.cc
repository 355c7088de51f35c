// exchange_planner.cc - slices, groups and tags of every collective.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/exchange_planner.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/comm/internal/collective_checks.h"
#include "dtrain/comm/internal/shared_exchange.h"

namespace dtrain::internal {
namespace {

// The bytes that a rank may send to all others in one exchange of everything between several hosts.
// At 1 Gb/s they take as long as two more messages wait for each other.
constexpr int64_t kSmallBetweenHosts = 16 << 10;

}  // namespace

std::vector<int64_t> EvenOffsets(int64_t begin, int64_t end, size_t slices) {
  std::vector<int64_t> offsets;
  const int64_t n = static_cast<int64_t>(slices);
  for (int64_t s = 0; s < n; ++s) offsets.push_back(begin + (end - begin) * s / n / 16 * 16);
  offsets.push_back(end);
  return offsets;
}

ExchangePlanner::ExchangePlanner(Transport* transport, HostChannels* channels,
                                 const RankTopology& topology, const CommunicatorOptions& options)
    : transport_(transport),
      channels_(channels),
      topology_(topology),
      options_(options),
      world_group_(static_cast<size_t>(topology.size())),
      groups_(FindRankGroups(topology)) {
  std::iota(world_group_.begin(), world_group_.end(), 0);
}

ExchangePlan ExchangePlanner::WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op,
                                        int64_t sequence) const {
  CheckData(data, count);
  const int size = topology_.size();
  const int others = std::max(size - 1, 1);
  return {.group = world_group_,
          .me = topology_.rank(),
          .data = static_cast<std::byte*>(data),
          .offsets = EvenOffsets(0, count, world_group_.size()),
          .dtype = dtype,
          .op = op,
          .divisor = op == ReduceOp::kAverage ? size : 1,
          .tag = static_cast<int>(sequence % Transport::kTagTurns) * 4,
          .sequence = sequence,
          // The pieces of all peers together stay in the second-level cache.
          .piece_bytes = std::max<int64_t>(options_.piece_bytes / ((others + 1) / 2), 4096),
          .job_ranks = topology_.job_ranks()};
}

ExchangePlan ExchangePlanner::HostPlan(void* data, int64_t count, int64_t sequence) const {
  ExchangePlan plan = WorldPlan(data, count, DType::kUint8, ReduceOp::kMin, sequence);
  plan.group = groups_.host;
  plan.me = topology_.local_rank();
  plan.offsets = EvenOffsets(0, count, groups_.host.size());
  return plan;
}

std::unique_ptr<Operation> ExchangePlanner::HostBroadcast(void* data, int64_t bytes,
                                                          int64_t sequence) {
  return std::make_unique<TreeBroadcast>(transport_, HostPlan(data, bytes, sequence));
}

std::unique_ptr<Operation> ExchangePlanner::HostMinimum(uint8_t* value, int64_t sequence) {
  return std::make_unique<SmallAllReduce>(transport_, &scratch_, HostPlan(value, 1, sequence));
}

std::unique_ptr<Operation> ExchangePlanner::HierarchicalAllReduce(const ExchangePlan& world) {
  ExchangePlan local = world;
  local.group = groups_.host;
  local.me = topology_.local_rank();
  local.offsets = EvenOffsets(0, world.offsets.back(), groups_.host.size());
  ExchangePlan cross = world;
  if (world.op == ReduceOp::kAverage && world.dtype == DType::kFloat16) {
    // The sum of a host's ranks may exceed the range of 16 bits although the mean does not.
    local.divisor = static_cast<int>(groups_.host.size());
    cross.divisor = static_cast<int>(groups_.cross.size());
  } else {
    local.divisor = 1;
    local.op = world.op == ReduceOp::kAverage ? ReduceOp::kSum : world.op;
  }
  local.reduce = true;
  const auto place = static_cast<size_t>(local.me);
  cross.group = groups_.cross;
  cross.me = PlaceOf(groups_.cross, topology_.rank());
  cross.offsets = EvenOffsets(local.offsets[place], local.offsets[place + 1], groups_.cross.size());
  cross.reduce = cross.gather = true;
  ExchangePlan back = local;
  back.reduce = false;
  back.gather = true;
  std::vector<std::unique_ptr<Operation>> operations;
  operations.push_back(Exchange(std::move(local)));
  operations.push_back(Exchange(std::move(cross)));
  // The gather begins once this rank has its sums, in another order on each rank.
  operations.push_back(Exchange(std::move(back), /*channel=*/1));
  return std::make_unique<Sequence>(std::move(operations));
}

std::unique_ptr<Operation> ExchangePlanner::Exchange(ExchangePlan plan, int channel) {
  if (!channels_->empty() && plan.group == groups_.host) {
    return std::make_unique<SharedExchange>(channels_->At(channel), std::move(plan),
                                            /*small=*/false);
  }
  return std::make_unique<SliceExchange>(transport_, &scratch_, std::move(plan));
}

std::unique_ptr<Operation> ExchangePlanner::SmallExchange(ExchangePlan plan) {
  if (!channels_->empty() && plan.group == groups_.host) {
    return std::make_unique<SharedExchange>(channels_->At(0), std::move(plan), /*small=*/true);
  }
  return std::make_unique<SmallAllReduce>(transport_, &scratch_, std::move(plan));
}

int64_t ExchangePlanner::SmallBytes() const {
  int64_t bytes = options_.small_bytes;
  if (!channels_->empty()) bytes = std::min(bytes, options_.slot_bytes);
  if (groups_.host.size() < world_group_.size()) {
    bytes = std::min(bytes, kSmallBetweenHosts / (topology_.size() - 1));
  }
  return bytes;
}

std::unique_ptr<Operation> ExchangePlanner::AllReduce(void* data, int64_t count, DType dtype,
                                                      ReduceOp op, int64_t sequence) {
  CheckOpFits(op, dtype);
  ExchangePlan plan = WorldPlan(data, count, dtype, op, sequence);
  if (count * static_cast<int64_t>(SizeOf(dtype)) <= SmallBytes()) {
    return SmallExchange(std::move(plan));
  }
  if (hierarchical_) return HierarchicalAllReduce(plan);
  plan.reduce = plan.gather = true;
  return Exchange(std::move(plan));
}

std::unique_ptr<Operation> ExchangePlanner::Broadcast(void* data, int64_t bytes, int root,
                                                      int64_t sequence) {
  const int size = topology_.size();
  CheckRoot(root, size);
  ExchangePlan plan = WorldPlan(data, bytes, DType::kUint8, ReduceOp::kSum, sequence);
  std::rotate(plan.group.begin(), plan.group.begin() + root, plan.group.end());
  plan.me = (topology_.rank() - root + size) % size;
  plan.piece_bytes = options_.piece_bytes;
  return std::make_unique<TreeBroadcast>(transport_, plan);
}

std::unique_ptr<Operation> ExchangePlanner::ReduceScatter(void* data,
                                                          std::span<const int64_t> offsets,
                                                          DType dtype, ReduceOp op,
                                                          int64_t sequence) {
  CheckOpFits(op, dtype);
  CheckOffsets(offsets, topology_.size());
  ExchangePlan plan = WorldPlan(data, offsets.back(), dtype, op, sequence);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.reduce = true;
  return Exchange(std::move(plan));
}

std::unique_ptr<Operation> ExchangePlanner::AllGather(void* data, std::span<const int64_t> offsets,
                                                      int64_t sequence) {
  CheckOffsets(offsets, topology_.size());
  ExchangePlan plan = WorldPlan(data, offsets.back(), DType::kUint8, ReduceOp::kSum, sequence);
  plan.offsets.assign(offsets.begin(), offsets.end());
  plan.gather = true;
  return Exchange(std::move(plan));
}

std::unique_ptr<Operation> ExchangePlanner::AllToAll(const void* from,
                                                     std::span<const int64_t> from_offsets,
                                                     void* to, std::span<const int64_t> to_offsets,
                                                     int64_t sequence) {
  const int size = topology_.size();
  CheckOffsets(from_offsets, size);
  CheckOffsets(to_offsets, size);
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  std::vector<PairwiseExchange::Peer> peers;
  for (int k = 0; k < size; ++k) {
    const int r = (topology_.rank() + k) % size;
    const auto i = static_cast<size_t>(r);
    peers.push_back({.rank = r,
                     .from = source + from_offsets[i],
                     .from_bytes = from_offsets[i + 1] - from_offsets[i],
                     .to = target + to_offsets[i],
                     .to_bytes = to_offsets[i + 1] - to_offsets[i]});
  }
  DT_CHECK_EQ(peers[0].from_bytes, peers[0].to_bytes) << "what this rank sends to itself";
  if (peers[0].to_bytes > 0) {
    std::memcpy(peers[0].to, peers[0].from, static_cast<size_t>(peers[0].to_bytes));
  }
  peers.erase(peers.begin());
  const int tag = WorldPlan(nullptr, 0, DType::kUint8, ReduceOp::kSum, sequence).tag;
  return std::make_unique<PairwiseExchange>(transport_, peers, tag, options_.piece_bytes);
}

std::unique_ptr<Operation> ExchangePlanner::Barrier(int64_t sequence) {
  return SmallExchange(WorldPlan(nullptr, 0, DType::kUint8, ReduceOp::kMax, sequence));
}

}  // namespace dtrain::internal
