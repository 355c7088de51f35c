// exchange_planner.h - which messages or copies a collective consists of.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a host exchange through shared memory if they have some, other ranks by messages. A
// hierarchical allreduce adds within hosts first, so that each byte crosses the network once per
// host.
#ifndef DTRAIN_COMM_INTERNAL_EXCHANGE_PLANNER_H_
#define DTRAIN_COMM_INTERNAL_EXCHANGE_PLANNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/host_channels.h"
#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/rank_groups.h"
#include "dtrain/comm/internal/transport.h"

namespace dtrain::internal {

// Each function makes the operation of one collective. `sequence` is the collective's number: all
// ranks number their collectives alike.
class ExchangePlanner {
 public:
  // `transport` and `channels` outlive the planner and its operations. The options of `topology`'s
  // communicator.
  ExchangePlanner(Transport* transport, HostChannels* channels, const RankTopology& topology,
                  const CommunicatorOptions& options);

  std::unique_ptr<Operation> AllReduce(void* data, int64_t count, DType dtype, ReduceOp op,
                                       int64_t sequence);
  std::unique_ptr<Operation> Broadcast(void* data, int64_t bytes, int root, int64_t sequence);
  std::unique_ptr<Operation> ReduceScatter(void* data, std::span<const int64_t> offsets,
                                           DType dtype, ReduceOp op, int64_t sequence);
  std::unique_ptr<Operation> AllGather(void* data, std::span<const int64_t> offsets,
                                       int64_t sequence);
  std::unique_ptr<Operation> AllToAll(const void* from, std::span<const int64_t> from_offsets,
                                      void* to, std::span<const int64_t> to_offsets,
                                      int64_t sequence);
  std::unique_ptr<Operation> Barrier(int64_t sequence);

  // Among the ranks of this host, by messages: what they need to find their shared memory.
  std::unique_ptr<Operation> HostBroadcast(void* data, int64_t bytes, int64_t sequence);
  std::unique_ptr<Operation> HostMinimum(uint8_t* value, int64_t sequence);

  // True if several hosts have the same number of ranks, more than one.
  bool CanBeHierarchical() const { return !groups_.cross.empty(); }
  // Whether large allreduces are hierarchical. All ranks set the same.
  void SetHierarchical(bool hierarchical) { hierarchical_ = hierarchical; }

 private:
  // A plan for all ranks with even slices of `count` elements.
  ExchangePlan WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op,
                         int64_t sequence) const;
  // The same for the ranks of this host.
  ExchangePlan HostPlan(void* data, int64_t count, int64_t sequence) const;
  std::unique_ptr<Operation> HierarchicalAllReduce(const ExchangePlan& world);
  // Through shared memory if the plan's group is this host's, else by messages.
  std::unique_ptr<Operation> Exchange(ExchangePlan plan, int channel = 0);
  std::unique_ptr<Operation> SmallExchange(ExchangePlan plan);
  // Up to this size an allreduce is one exchange of everything.
  int64_t SmallBytes() const;

  Transport* transport_;
  HostChannels* channels_;
  RankTopology topology_;
  CommunicatorOptions options_;
  std::vector<int> world_group_;
  RankGroups groups_;
  ScratchPool scratch_;
  bool hierarchical_ = false;
};

// Cuts [begin, end) into even slices that start at multiples of 16 elements, a cache line of
// floats. [slices + 1].
std::vector<int64_t> EvenOffsets(int64_t begin, int64_t end, size_t slices);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_EXCHANGE_PLANNER_H_
