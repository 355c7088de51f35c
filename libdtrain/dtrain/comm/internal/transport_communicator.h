// transport_communicator.h - the collectives over any transport: starts, moves, awaits them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_
#define DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/flight_recorder.h"
#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/shared_exchange.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/wait_watch.h"

namespace dtrain::internal {

class TransportCommunicator final : public Communicator {
 public:
  // hosts: the host name of every rank. Where every host has the same number of ranks, more than
  // one, an allreduce adds within hosts first, so that each byte crosses the network once per host.
  TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                        std::vector<std::string> hosts, const CommunicatorOptions& options);
  // Called by Split(): `ranks` of `whole`, whose messages travel in `context`.
  TransportCommunicator(TransportCommunicator& whole, std::span<const int> ranks, int context);

  std::unique_ptr<Handle> StartAllReduce(void* data, int64_t count, DType dtype,
                                         ReduceOp op) override;
  std::unique_ptr<Handle> StartBroadcast(void* data, int64_t bytes, int root) override;
  std::unique_ptr<Handle> StartReduceScatter(void* data, std::span<const int64_t> offsets,
                                             DType dtype, ReduceOp op) override;
  std::unique_ptr<Handle> StartAllGatherV(void* data, std::span<const int64_t> offsets) override;
  std::unique_ptr<Handle> StartAllToAllV(const void* from, std::span<const int64_t> from_offsets,
                                         void* to, std::span<const int64_t> to_offsets) override;
  std::unique_ptr<Handle> StartBarrier() override;
  std::unique_ptr<Communicator> Split(int color) override;
  void Poll() override;
  int64_t bytes_sent() const override;
  // Whether large allreduces are hierarchical.
  bool hierarchical() const { return hierarchical_; }

 private:
  struct Outstanding {
    std::unique_ptr<Operation> operation;
    WaitState state;
    bool done = false;
  };
  class HandleImpl;

  // Topology, shared memory, the way of large allreduces; all ranks take part.
  void SetUp();
  // In what all ranks must begin it alike.
  struct Likeness {
    bool bytes = true;  // or each rank its own
    int64_t kind = 0;   // below 2^16: type and operation, or root
  };
  static int64_t KindOf(DType dtype, ReduceOp op) {
    return 16 * static_cast<int64_t>(dtype) + static_cast<int64_t>(op);
  }
  std::unique_ptr<Handle> Start(const char* name, int64_t bytes,
                                std::unique_ptr<Operation> operation, const Likeness& alike);
  std::unique_ptr<Handle> Start(const char* name, int64_t bytes,
                                std::unique_ptr<Operation> operation) {
    return Start(name, bytes, std::move(operation), Likeness());
  }
  // Keeps the reason for all later calls and writes the record.
  [[noreturn]] void Fail(std::string reason);
  void Wait(const Outstanding& outstanding);
  // A plan for all ranks with even slices of `count` elements, its tag fresh.
  ExchangePlan WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op);
  std::unique_ptr<Operation> HierarchicalAllReduce(const ExchangePlan& world);
  // Through shared memory where the plan's group is this host's, else by messages. `channel`: 0, or
  // 1 for operations that begin in another order than they were made in.
  std::unique_ptr<Operation> Exchange(ExchangePlan plan, int channel = 0);
  // Up to how many an allreduce is one exchange of everything.
  int64_t SmallBytes() const;
  std::unique_ptr<Operation> SmallExchange(ExchangePlan plan);
  void ShareMemory();
  bool ChooseHierarchical();
  double SecondsOfAllReduce(std::span<float> data);
  int64_t Moves() const;

  std::unique_ptr<Transport> transport_;
  ScratchPool scratch_;
  WaitWatch wait_watch_;
  FlightRecorder recorder_;
  std::vector<int> world_group_;
  std::vector<int> host_group_, cross_group_;  // as in RankGroups
  std::vector<SharedChannel> channels_;        // of host_group_; empty: no shared memory
  bool hierarchical_ = false;
  bool is_world_ = false;    // its collectives are those that heartbeats tell of
  int64_t setup_bytes_ = 0;  // not counted in bytes_sent()
  int64_t sequence_ = 0;
  // Shared with the handles, which outlive their entry here or are dropped before it finishes.
  std::vector<std::shared_ptr<Outstanding>> outstanding_;
  std::string failure_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_
