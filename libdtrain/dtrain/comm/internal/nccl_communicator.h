// nccl_communicator.h - a device communicator on NCCL: world, host and across hosts.
// SPDX-License-Identifier: Apache-2.0
//
// The host never waits inside NCCL. Wait() compares, over the host's communicator, what all ranks
// have issued while it asks the device how far it is: a rank that is late is known by its missing
// part there, and ranks out of step are found before NCCL waits for them for ever.
#ifndef DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_
#define DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/device_communicator.h"
#include "dtrain/comm/internal/nccl_link.h"
#include "dtrain/comm/internal/rank_groups.h"
#include "dtrain/device/stream_order.h"

namespace dtrain::internal {

// Made by the first rank of each group.
struct NcclIds {
  NcclUniqueId world, host, cross;
  bool hierarchical = false;  // host and cross are there
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& comm, const Device& device, const NcclLibrary& nccl);
  ~NcclCommunicator() override;

  // By all ranks. Why this one cannot, or "".
  std::string Connect(const NcclIds& ids);
  // One allreduce, or those that choose the way. By all ranks, after all could connect.
  void Prove();
  // Of all links; after which nothing may be issued.
  void Abort();

  Stream& stream() override { return stream_; }
  std::string description() const override;
  void AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) override;
  void ReduceScatter(void* data, int64_t count, DType dtype, ReduceOp op) override;
  void AllGather(void* data, int64_t count, DType dtype) override;
  void Broadcast(void* data, int64_t bytes, int root) override;
  void Group(const std::function<void()>& issue) override;
  void Poll() override;
  void Wait() override;

 private:
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
  struct Call {
    Kind kind;
    std::byte* data;
    int64_t count;
    DType dtype;
    ReduceOp op = ReduceOp::kSum;
    int root = 0;
  };
  // A call on one link: collectives of one phase may travel together, phases come one after the
  // other.
  struct Piece {
    NcclLink* link;
    Call call;
  };
  using Phases = std::array<std::vector<Piece>, 3>;
  struct InFlight {
    // Behind what `stream` was given.
    InFlight(int64_t last, std::string what, const Stream& stream)
        : number(last), name(std::move(what)), arrived(stream) {}

    int64_t number;
    std::string name;
    StreamMark arrived;
  };
  // What a rank tells the others when it waits.
  struct Issued {
    int64_t number = 0;
    uint64_t digest = 0;
    std::array<char, 48> last{};
  };
  enum class Step { kDone, kMoved, kNothing };

  std::string ConnectOne(std::unique_ptr<NcclLink>& link, const NcclUniqueId& id,
                         const std::vector<int>& group);
  static std::string Describe(const Call& call);
  void Submit(const Call& call);
  void Issue(std::span<const Call> calls);
  void AddPieces(const Call& call, Phases& phases);
  void Launch(std::span<const Piece> pieces);
  NcclResult Launch(const Piece& piece);
  // False where step() gave nothing but kNothing for `limit` seconds; warns before, with
  // describe(seconds). Where heartbeats arrive, those who watch them decide instead, once all are
  // connected. Failures of the job end it like all others.
  bool Await(const std::function<Step()>& step, double limit,
             const std::function<std::string(double)>& describe);
  Step Reap();
  void CheckLinks();
  void CheckSame(std::span<const Issued> all);
  std::string DescribeWait(double seconds, std::span<const int> missing) const;
  [[noreturn]] void Fail(const std::string& reason);
  void ThrowIfFailed() const;
  double SecondsOfAllReduce(void* data, int64_t count);

  Communicator& comm_;
  const NcclLibrary& nccl_;
  RankGroups groups_;
  Stream stream_;
  std::list<InFlight> in_flight_;
  std::unique_ptr<NcclLink> world_, host_, cross_;  // the latter two where a hierarchy may be
  bool is_connected_ = false;
  bool hierarchical_ = false;
  std::vector<Call>* group_ = nullptr;  // being gathered
  int64_t number_ = 0;                  // of collectives issued
  uint64_t digest_ = 0;
  std::string last_;  // the last one issued
  std::string failure_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_COMMUNICATOR_H_
