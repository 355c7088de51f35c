// communicator.h - what data-parallel ranks say to each other: collectives over all ranks of a job.
// SPDX-License-Identifier: Apache-2.0
//
//   comm.AllReduce(std::span<double>(sums), ReduceOp::kSum);       // blocking, in place
//   auto handle = comm.StartAllReduce(bucket, n, DType::kFloat32, ReduceOp::kSum);
//   while (computing) comm.Poll();                                 // moves bytes between ops
//   handle->Wait();
//
// Every rank calls the same collectives in the same order with the same sizes and types. Sums are
// added in an order fixed by the ranks and their hosts alone, so the result is bit-identical on all
// ranks and from run to run. 16-bit floats are added in float and rounded once per exchange (twice
// where ranks share several hosts). Ranks that finish tensors in any order, or want mismatches
// reported instead of trusted away, use Collectives (collectives.h) on top of this.
//
// A communicator belongs to one thread. Failures throw CommError: the library's own text, or, after
// CommunicatorOptions::timeout_seconds without progress, the rank, the collective, its sequence
// number and the ranks waited for. After that the job must be ended (Environment::Abort).
#ifndef DTRAIN_COMM_COMMUNICATOR_H_
#define DTRAIN_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/pulse.h"

namespace dtrain {

namespace internal {
class FlightRecords;
}

// Communication failed: a rank is gone, stopped or out of step. Ends with exit code 6.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// kAverage is the sum divided by the number of ranks, for floating types only; kBitAnd is for
// integers only. Sums and products of integers wrap. Minimum and maximum of floats are NaN where
// any rank has NaN.
enum class ReduceOp { kSum, kAverage, kMin, kMax, kProduct, kBitAnd };
std::string_view Name(ReduceOp op);

// How a large allreduce travels where ranks share several hosts, the same number on each.
enum class AllReduceAlgorithm {
  kAuto,          // hierarchical where it can be
  kFlat,          // among all ranks at once
  kHierarchical,  // reduce-scatter within hosts, allreduce across, all-gather within
  kMeasure        // times both at the start, the slowest rank decides; its groups take kAuto
};

struct CommunicatorOptions {
  double timeout_seconds = 120;     // without any progress or sign of life, then CommError
  double slow_seconds = 10;         // of waiting, within which a warning names who is late
  int64_t piece_bytes = 512 << 10;  // unit of pipelining of large messages
  // An allreduce up to this size is one exchange of everything with everybody. Between hosts at
  // most 16 KiB / (ranks - 1): there bytes cost more than steps.
  int64_t small_bytes = 32 << 10;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
  // Where a rank whose communication fails writes its last 1,024 collectives; an existing
  // directory. Empty: where SetRecordDirectory() says.
  std::string record_directory{};
  bool nccl = true;                // between GPUs; false: through the host's memory
  bool shared_memory = true;       // between ranks of a host; false: messages
  int64_t slot_bytes = 256 << 10;  // of shared memory: what a rank shows the others at a time
};

// A collective in flight. The memory it works on must stay untouched until Test() gave true or
// Wait() returned. Destroying a handle does not stop the collective.
class Handle {
 public:
  virtual ~Handle() = default;
  // Moves all outstanding collectives; true when this one has finished.
  virtual bool Test() = 0;
  virtual void Wait() = 0;
  // The ranks whose part is missing here, as far as this rank sees.
  virtual std::vector<int> MissingRanks() const { return {}; }
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  bool is_root() const { return rank_ == 0; }
  // Place among the ranks of the same host, and how many there are.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  // The number of a rank in the communicator that this one was split from, and that one from, up to
  // the first: what mpirun counts, and what messages and files name.
  int job_rank(int rank) const { return job_ranks_[static_cast<size_t>(rank)]; }
  const std::vector<int>& job_ranks() const { return job_ranks_; }
  // "rank 3 (host b)", by job_rank.
  std::string RankName(int rank) const;
  // "" where it has all ranks of the job, else which: "ranks 1, 3".
  const std::string& group_name() const { return group_name_; }
  // As it was made with; what is made of it follows them too.
  const CommunicatorOptions& options() const { return options_; }
  // What heartbeats tell the others of this rank; of the whole job in every communicator.
  Pulse& pulse() { return *pulse_; }
  // For who watches the job longer than this communicator lives.
  std::shared_ptr<Pulse> shared_pulse() const { return pulse_; }
  std::shared_ptr<internal::FlightRecords> shared_records() const { return records_; }
  // What CommunicatorOptions::record_directory is, for this rank in all communicators of the job,
  // where it was left empty. An existing directory; "" for none. Any thread may call.
  void SetRecordDirectory(const std::string& directory);
  // Bytes this rank has sent to others.
  virtual int64_t bytes_sent() const = 0;

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

  // Copies `bytes` bytes of rank `root` to all.
  virtual std::unique_ptr<Handle> StartBroadcast(void* data, int64_t bytes, int root) = 0;
  void Broadcast(void* data, int64_t bytes, int root) { StartBroadcast(data, bytes, root)->Wait(); }
  // Elements [offsets[r], offsets[r + 1]) of rank r become the reduction of all ranks' elements
  // there; the others are unspecified afterwards. offsets: [size + 1], elements.
  virtual std::unique_ptr<Handle> StartReduceScatter(void* data, std::span<const int64_t> offsets,
                                                     DType dtype, ReduceOp op) = 0;
  void ReduceScatter(void* data, std::span<const int64_t> offsets, DType dtype, ReduceOp op) {
    StartReduceScatter(data, offsets, dtype, op)->Wait();
  }
  // Every rank brings bytes [offsets[r], offsets[r + 1]) and receives all others. offsets:
  // [size + 1], bytes.
  virtual std::unique_ptr<Handle> StartAllGatherV(void* data, std::span<const int64_t> offsets) = 0;
  void AllGatherV(void* data, std::span<const int64_t> offsets) {
    StartAllGatherV(data, offsets)->Wait();
  }
  // Bytes [from_offsets[r], from_offsets[r + 1]) of `from` go to rank r; what rank r sends here
  // lands in bytes [to_offsets[r], to_offsets[r + 1]) of `to`. Both: [size + 1]; the memory must
  // not overlap.
  virtual std::unique_ptr<Handle> StartAllToAllV(const void* from,
                                                 std::span<const int64_t> from_offsets, void* to,
                                                 std::span<const int64_t> to_offsets) = 0;
  void AllToAllV(const void* from, std::span<const int64_t> from_offsets, void* to,
                 std::span<const int64_t> to_offsets) {
    StartAllToAllV(from, from_offsets, to, to_offsets)->Wait();
  }
  // Finishes when every rank has entered.
  virtual std::unique_ptr<Handle> StartBarrier() = 0;
  void Barrier() { StartBarrier()->Wait(); }
  // Moves all outstanding collectives as far as they go without waiting.
  virtual void Poll() = 0;

  // A communicator of its own for the ranks that give the same colour, numbered in their order
  // here; null where the colour is negative. All ranks call it, in the same order as their other
  // splits, those of this one's own origin and offspring too, one thread at a time. The new one may
  // be used by another thread than this one.
  virtual std::unique_ptr<Communicator> Split(int color) = 0;
  // Of `ranks` alone, which all ranks pass alike; null on the others.
  std::unique_ptr<Communicator> Group(std::span<const int> ranks);
  // As in Group({0, 2}).
  std::unique_ptr<Communicator> Group(std::initializer_list<int> ranks) {
    return Group(std::span<const int>(ranks.begin(), ranks.size()));
  }
  // Of the ranks of this host; of the ranks with this local rank, one of each host.
  std::unique_ptr<Communicator> NodeGroup();
  std::unique_ptr<Communicator> CrossGroup() { return Split(local_rank()); }

  // One value of every rank, by rank.
  template <typename T>
  std::vector<T> AllGather(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<size_t>(size()));
    all[static_cast<size_t>(rank_)] = value;
    AllGatherEqual(all.data(), static_cast<int64_t>(sizeof(T)));
    return all;
  }
  // The text of every rank, by rank.
  std::vector<std::string> AllGatherStrings(std::string_view text);
  // The text of rank `root`; `text` counts there only.
  std::string BroadcastString(std::string_view text, int root = 0);

 protected:
  // hosts: the host name of every rank, by rank.
  Communicator(int rank, std::vector<std::string> hosts, const CommunicatorOptions& options = {});
  // A group of `ranks` of `whole`, this one among them.
  Communicator(const Communicator& whole, std::span<const int> ranks);

 private:
  void AllGatherEqual(void* all, int64_t bytes_each);
  void CountLocalRanks();

  int rank_;
  std::vector<std::string> hosts_;
  std::vector<int> job_ranks_;
  std::string group_name_;
  CommunicatorOptions options_;
  std::shared_ptr<Pulse> pulse_ = std::make_shared<Pulse>();
  std::shared_ptr<internal::FlightRecords> records_;
  int local_rank_ = 0;
  int local_size_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_COMMUNICATOR_H_
