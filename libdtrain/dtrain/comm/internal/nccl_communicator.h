// nccl_communicator.h - collectives among GPUs by NCCL, with time-outs that name the late rank.
// SPDX-License-Identifier: Apache-2.0
//
// The host never waits inside NCCL. Wait() asks the device how far it is. Meanwhile the ranks
// compare over the host's communicator what all of them have issued. A late rank is known because
// its part of that comparison is missing, and ranks out of step are found before NCCL waits for
// them for ever.
#ifndef DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_
#define DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/comm/device_communicator.h"
#include "dtrain/comm/internal/device_wait.h"
#include "dtrain/comm/internal/issued_collectives.h"
#include "dtrain/comm/internal/nccl_links.h"
#include "dtrain/comm/internal/nccl_phases.h"
#include "dtrain/comm/internal/rank_groups.h"
#include "dtrain/device/stream_order.h"

namespace dtrain::internal {

// The first rank of each group makes its id.
struct NcclIds {
  NcclUniqueId world, host, cross;
  bool hierarchical = false;  // host and cross are set
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& comm, const Device& device, const NcclLibrary& nccl);
  ~NcclCommunicator() override;

  // All ranks call it. Returns "" or why this rank cannot connect.
  std::string Connect(const NcclIds& ids);
  // Runs a first allreduce, or those that choose between the flat and the hierarchical path. All
  // ranks call it after all could connect.
  void Prove();
  // Aborts all links. Nothing may be issued afterwards.
  void Abort() { links_.Abort(); }

  Stream& stream() override { return stream_; }
  std::string description() const override;
  void AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) override;
  void ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) override;
  void AllGather(void* data, int64_t count, DType dtype) override;
  void Broadcast(void* data, int64_t bytes, int root) override;
  void AllToAll(const void* from, std::span<const int64_t> from_offsets, void* to,
                std::span<const int64_t> to_offsets) override;
  void Group(const std::function<void()>& issue) override;
  void Poll() override;
  void Wait() override;

 private:
  std::string ConnectOne(NcclLinkKind kind, const NcclUniqueId& id, const std::vector<int>& group);
  void Submit(const NcclCall& call);
  void Issue(std::span<const NcclCall> calls);
  // AwaitDevice(); a CommError aborts the links and is kept for later calls.
  bool Await(const std::function<WaitStep()>& step, double limit,
             const std::function<std::string(double)>& describe);
  void CheckLinks();
  [[noreturn]] void Fail(const std::string& reason);
  void ThrowIfFailed() const;

  Communicator& comm_;
  const NcclLibrary& nccl_;
  RankGroups groups_;
  Stream stream_;
  NcclLinks links_;
  IssuedCollectives issued_;
  bool is_connected_ = false;
  bool hierarchical_ = false;
  std::vector<NcclCall>* group_ = nullptr;  // the calls of Group() so far, or null
  std::string failure_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_
