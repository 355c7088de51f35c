// transport_communicator.h - the collectives over any transport: messages and shared memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_
#define DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/collective_runner.h"
#include "dtrain/comm/internal/exchange_planner.h"
#include "dtrain/comm/internal/host_channels.h"
#include "dtrain/comm/internal/transport.h"

namespace dtrain::internal {

class TransportCommunicator final : public Communicator {
 public:
  // hosts: the host name of every rank.
  TransportCommunicator(std::unique_ptr<Transport> transport, int rank,
                        std::vector<std::string> hosts, const CommunicatorOptions& options);
  // For Split(): the group of `ranks` of `whole`. Its messages travel in `context`.
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
  void Poll() override { runner_.Poll(); }
  int64_t bytes_sent() const override;

 private:
  // Finds the shared memory and the path of large allreduces. All ranks take part.
  void SetUp(bool is_world);
  void ShareMemory();
  bool ChooseHierarchical();
  double SecondsOfAllReduce(std::span<float> data);

  std::unique_ptr<Transport> transport_;
  HostChannels channels_;  // of the ranks of this host
  ExchangePlanner planner_;
  CollectiveRunner runner_;
  int64_t setup_bytes_ = 0;  // not counted in bytes_sent()
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_TRANSPORT_COMMUNICATOR_H_
