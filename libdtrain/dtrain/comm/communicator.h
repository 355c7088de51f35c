// communicator.h - collectives among the ranks of a job: sums, broadcasts, gathers, barriers.
// SPDX-License-Identifier: Apache-2.0
//
//   std::vector<double> sums = {0.5, 12.0};
//   comm.AllReduce(std::span<double>(sums), ReduceOp::kSum);  // blocking, in place
//   std::vector<float> bucket(1000);
//   const auto handle = comm.StartAllReduce(bucket.data(), 1000, DType::kFloat32, ReduceOp::kSum);
//   comm.Poll();                                              // moves bytes while you compute
//   handle->Wait();
//
// Every rank calls the same collectives in the same order with the same sizes and types. The order
// of additions depends only on the ranks and their hosts, so sums have the same bits on all ranks
// and in every run. 16-bit floats are added in float and rounded once per exchange (twice if ranks
// share several hosts). Use Collectives (collectives.h) if ranks finish tensors in different
// orders, or if mismatches between ranks must be reported.
//
// A communicator belongs to one thread. Failures throw CommError. After
// CommunicatorOptions::timeout_seconds without progress its text names the rank, the collective,
// its sequence number and the ranks it waited for. After a CommError the job must end
// (Environment::Abort).
//
// In the library see also groups.h for communicators of some of the ranks, gather.h for small
// objects, heartbeat.h for what a rank reports to the others.
#ifndef DTRAIN_COMM_COMMUNICATOR_H_
#define DTRAIN_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/dtype.h"

namespace dtrain {

class FlightRecords;
class Heartbeat;

// Communication failed: a rank is gone, stopped or out of step. The program ends with exit code 6.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// kAverage is the sum divided by the number of ranks; it needs a floating type. kBitAnd needs an
// integer type. Sums and products of integers wrap around. The minimum and maximum of floats are
// NaN if any rank has NaN.
enum class ReduceOp { kSum, kAverage, kMin, kMax, kProduct, kBitAnd };
std::string_view Name(ReduceOp op);

// The path of a large allreduce if the ranks share several hosts, the same number on each host.
enum class AllReduceAlgorithm {
  kAuto,          // hierarchical if possible
  kFlat,          // among all ranks at once
  kHierarchical,  // reduce-scatter within hosts, allreduce across hosts, all-gather within hosts
  // Times both at the start; the slowest rank decides. Groups of the communicator use kAuto.
  kMeasure
};

// Time limits and paths of messages. The same on all ranks.
struct CommunicatorOptions {
  double timeout_seconds = 120;     // without progress or a sign of life, before CommError
  double slow_seconds = 10;         // of waiting, before a warning names the late ranks
  int64_t piece_bytes = 512 << 10;  // size of the pieces in which a large message is pipelined
  // Up to this size an allreduce is one exchange of everything with everybody. Between hosts the
  // limit is at most 16 KiB / (ranks - 1), because there bytes cost more than steps.
  int64_t small_bytes = 32 << 10;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
  // An existing directory. A rank whose communication fails writes its last 1,024 collectives
  // there. If empty, FlightRecords::SetDefaultDirectory() sets it.
  std::string record_directory{};
  bool nccl = true;                // use NCCL between GPUs; false: go through the host's memory
  bool shared_memory = true;       // use it between ranks of a host; false: send messages
  int64_t slot_bytes = 256 << 10;  // shared memory in which a rank shows one piece to the others
};

// A collective in flight. Its memory must stay untouched until Test() returns true or Wait()
// returns. Destroying a handle does not stop the collective.
class Handle {
 public:
  virtual ~Handle() = default;
  // Moves all outstanding collectives. True if this one has finished.
  virtual bool Test() = 0;
  virtual void Wait() = 0;
  // The ranks whose part has not arrived, as far as this rank knows.
  virtual std::vector<int> MissingRanks() const { return {}; }
};

// A value: it never changes, and copies are cheap next to any collective.
class RankTopology {
 public:
  // All ranks of a job. hosts: the host name of every rank, by rank.
  RankTopology(int rank, std::vector<std::string> hosts);
  // The group of `ranks`, this rank among them, numbered in this order.
  RankTopology Group(std::span<const int> ranks) const;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  // The place of this rank among the ranks of its host, and the number of those ranks.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  // The number that mpirun gave to `rank`. Messages and files name ranks by it, also in groups,
  // which number their ranks anew.
  int job_rank(int rank) const { return job_ranks_[static_cast<size_t>(rank)]; }
  const std::vector<int>& job_ranks() const { return job_ranks_; }
  // "rank 3 (host b)", by job_rank().
  std::string RankName(int rank) const;
  // "ranks 1, 3" for a group, or "" if all ranks of the job are in it.
  const std::string& group_name() const { return group_name_; }

 private:
  RankTopology() = default;
  void CountLocalRanks();

  int rank_ = -1;
  std::vector<std::string> hosts_;
  std::vector<int> job_ranks_;
  std::string group_name_;
  int local_rank_ = 0;
  int local_size_ = 0;
};

// The ranks of a job, or some of them, and their collectives.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return topology_.rank(); }
  int size() const { return topology_.size(); }
  bool is_root() const { return rank() == 0; }
  // Hosts and names of the ranks.
  const RankTopology& topology() const { return topology_; }
  // The options it was made with. Groups split from it have the same ones.
  const CommunicatorOptions& options() const { return options_; }

  // Reduces `count` elements in place on every rank.
  virtual std::unique_ptr<Handle> StartAllReduce(void* data, int64_t count, DType dtype,
                                                 ReduceOp op) = 0;
  void AllReduce(void* data, int64_t count, DType dtype, ReduceOp op) {
    StartAllReduce(data, count, dtype, op)->Wait();
  }
  template <typename T>
  void AllReduce(std::span<T> values, ReduceOp op) {
    AllReduce(values.data(), static_cast<int64_t>(values.size()), kDTypeOf<T>, op);
  }
  template <typename T>
  T AllReduceValue(T value, ReduceOp op) {
    AllReduce(&value, 1, kDTypeOf<T>, op);
    return value;
  }

  // Copies `bytes` bytes of rank `root` to all ranks.
  virtual std::unique_ptr<Handle> StartBroadcast(void* data, int64_t bytes, int root) = 0;
  void Broadcast(void* data, int64_t bytes, int root) { StartBroadcast(data, bytes, root)->Wait(); }

  // Elements [offsets[r], offsets[r + 1]) of rank r become the reduction of these elements of all
  // ranks. The other elements are unspecified afterwards. offsets: [size + 1], in elements.
  virtual std::unique_ptr<Handle> StartReduceScatter(void* data, std::span<const int64_t> offsets,
                                                     DType dtype, ReduceOp op) = 0;
  // Rank r provides bytes [offsets[r], offsets[r + 1]) and receives all other bytes. offsets:
  // [size + 1], in bytes.
  virtual std::unique_ptr<Handle> StartAllGatherV(void* data, std::span<const int64_t> offsets) = 0;
  // Bytes [from_offsets[r], from_offsets[r + 1]) of `from` go to rank r. The bytes that rank r
  // sends to this rank arrive in bytes [to_offsets[r], to_offsets[r + 1]) of `to`. Both offsets:
  // [size + 1]. The two memory ranges must not overlap.
  virtual std::unique_ptr<Handle> StartAllToAllV(const void* from,
                                                 std::span<const int64_t> from_offsets, void* to,
                                                 std::span<const int64_t> to_offsets) = 0;

  // Finishes when every rank has entered.
  virtual std::unique_ptr<Handle> StartBarrier() = 0;
  void Barrier() { StartBarrier()->Wait(); }

  // Moves all outstanding collectives as far as possible without waiting.
  virtual void Poll() = 0;
  // Bytes that this rank has sent to other ranks.
  virtual int64_t bytes_sent() const = 0;

  // Makes a communicator for the ranks that pass the same colour, in the order of their ranks here.
  // Returns null if the colour is negative. All ranks call it, one thread at a time, in the same
  // order as their other splits. That order includes splits of the communicators it came from and
  // of those split from it. Another thread may use the new communicator.
  virtual std::unique_ptr<Communicator> Split(int color) = 0;

 protected:
  // The communicator of all ranks of a job. hosts: the host name of every rank, by rank.
  Communicator(int rank, std::vector<std::string> hosts, const CommunicatorOptions& options = {});
  // The group of `ranks` of `whole`, this rank among them.
  Communicator(const Communicator& whole, std::span<const int> ranks);

 private:
  friend const std::shared_ptr<Heartbeat>& HeartbeatOf(const Communicator& comm);
  friend const std::shared_ptr<FlightRecords>& RecordsOf(const Communicator& comm);

  RankTopology topology_;
  CommunicatorOptions options_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<FlightRecords> records_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_COMMUNICATOR_H_
