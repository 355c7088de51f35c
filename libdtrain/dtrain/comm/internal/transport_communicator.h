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
#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/watchdog.h"

namespace dtrain::internal {

class TransportCommunicator final : public Communicator {
 public:
  // hosts: the host name of every rank. Where every host has the same number of ranks, more than
  // one, an allreduce adds within hosts first, so that each byte crosses the network once per host.
  TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                        std::vector<std::string> hosts, const CommunicatorOptions& options);

  std::unique_ptr<Handle> StartAllReduce(void* data, int64_t count, DType dtype,
                                         ReduceOp op) override;
  void Broadcast(void* data, int64_t bytes, int root) override;
  void ReduceScatter(void* data, std::span<const int64_t> offsets, DType dtype,
                     ReduceOp op) override;
  void AllGatherV(void* data, std::span<const int64_t> offsets) override;
  void Barrier() override;
  void Poll() override;
  int64_t bytes_sent() const override { return transport_->bytes_sent(); }

 private:
  struct Outstanding {
    std::unique_ptr<Operation> operation;
    WaitState state;
    bool done = false;
  };
  class HandleImpl;

  std::shared_ptr<Outstanding> Start(const char* name, std::unique_ptr<Operation> operation);
  void Wait(const Outstanding& outstanding);
  // A plan for all ranks with even slices of `count` elements, its tag fresh.
  ExchangePlan WorldPlan(void* data, int64_t count, DType dtype, ReduceOp op);
  std::unique_ptr<Operation> HierarchicalAllReduce(const ExchangePlan& world);
  void FindGroups();

  std::unique_ptr<Transport> transport_;
  CommunicatorOptions options_;
  ScratchPool scratch_;
  Watchdog watchdog_;
  std::vector<int> world_group_;
  std::vector<int> host_group_;   // ranks of this host
  std::vector<int> cross_group_;  // ranks of the same place on every host; empty: not used
  int64_t sequence_ = 0;
  // Shared with the handles, which outlive their entry here or are dropped before it finishes.
  std::vector<std::shared_ptr<Outstanding>> outstanding_;
  std::string failure_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_
