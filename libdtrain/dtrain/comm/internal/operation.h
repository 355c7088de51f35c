// operation.h - collectives as state machines over messages, moved by polling.
// SPDX-License-Identifier: Apache-2.0
//
// Rank r owns slice r of the data. To reduce, every rank sends slice q to its owner q, who adds the
// pieces in rank order. To gather, every owner sends its slice to all ranks. An allreduce does
// both, piece by piece, several pieces at a time. Each rank sends and receives 2 (n - 1) / n of the
// data, as in a ring, but in 2 steps instead of 2 (n - 1). Every element is added once, in one
// place.
#ifndef DTRAIN_COMM_INTERNAL_OPERATION_H_
#define DTRAIN_COMM_INTERNAL_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/transport.h"

namespace dtrain::internal {

// Receive buffers, which later collectives use again.
class ScratchPool {
 public:
  using Buffer = std::vector<std::byte>;
  Buffer Take(size_t bytes);
  void Give(Buffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> free_;
};

struct Pending {
  Transport::Request request;
  int peer;
};

class Operation {
 public:
  virtual ~Operation() = default;
  // Moves as far as possible without waiting. True when finished.
  virtual bool Progress() = 0;
  // Appends the ranks whose messages are missing.
  virtual void AddMissing(std::vector<int>* ranks) const = 0;
};

// The data and the ranks of a collective. `group` lists the ranks that take part, ascending; `me`
// is this rank's place in it. Slice s holds elements [offsets[s], offsets[s + 1]).
struct ExchangePlan {
  std::vector<int> group;
  int me = 0;
  std::byte* data = nullptr;
  std::vector<int64_t> offsets;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int divisor = 1;  // for kAverage
  bool reduce = false;
  bool gather = false;
  int tag = 0;           // the plan uses it and tag + 1
  int64_t sequence = 0;  // the number of the collective
  int64_t piece_bytes = 0;
  std::span<const int> job_ranks{};  // the numbers by which messages name the ranks
};

class SliceExchange final : public Operation {
 public:
  SliceExchange(Transport* transport, ScratchPool* scratch, ExchangePlan plan);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  enum class Stage { kReducing, kSending, kGathering, kDone };
  struct Piece {
    int64_t index = 0;
    Stage stage = Stage::kReducing;
    ScratchPool::Buffer
        received{};  // the others' copies of my slice's piece, by place in the group
    std::vector<Pending> receives{};
    std::vector<Pending> sends{};
    std::vector<Pending> result_sends{};
  };
  struct Range {
    int64_t begin = 0;
    int64_t count = 0;
  };

  static constexpr size_t kWindow = 4;  // pieces in flight

  Range RangeOf(int slice, int64_t piece) const;
  std::byte* At(int64_t element) const { return plan_.data + element * element_bytes_; }
  Piece Launch(int64_t index);
  // Takes the piece to its next stage. False if messages are missing.
  bool Advance(Piece& piece);
  void Reduce(Piece& piece);
  void StartGather(Piece& piece);
  void SendResult(Piece& piece);

  Transport* transport_;
  ScratchPool* scratch_;
  ExchangePlan plan_;
  int64_t element_bytes_;
  int64_t piece_elements_;
  int64_t pieces_ = 0;
  int64_t next_ = 0;
  std::deque<Piece> active_;
};

// An allreduce of little data: every rank sends everything to all ranks and reduces for itself.
class SmallAllReduce final : public Operation {
 public:
  SmallAllReduce(Transport* transport, ScratchPool* scratch, ExchangePlan plan);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  Transport* transport_;
  ScratchPool* scratch_;
  ExchangePlan plan_;
  int64_t count_;
  size_t bytes_;
  ScratchPool::Buffer copies_;
  std::vector<Pending> receives_;
  std::vector<Pending> sends_;
  bool reduced_ = false;
};

// Copies the data of group[0] to all ranks along a binomial tree, piece by piece.
class TreeBroadcast final : public Operation {
 public:
  TreeBroadcast(Transport* transport, const ExchangePlan& plan);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  static constexpr size_t kWindow = 4;

  Transport* transport_;
  ExchangePlan plan_;
  int parent_ = -1;
  std::vector<int> children_;
  int64_t received_ = 0;  // bytes that have arrived
  int64_t asked_ = 0;     // bytes for which a receive is posted
  std::deque<Pending> receives_;
  std::vector<Pending> sends_;
};

// Every pair of ranks exchanges a range of bytes, piece by piece.
class PairwiseExchange final : public Operation {
 public:
  struct Peer {
    int rank = 0;
    const std::byte* from = nullptr;
    int64_t from_bytes = 0;
    std::byte* to = nullptr;
    int64_t to_bytes = 0;
  };
  PairwiseExchange(Transport* transport, const std::vector<Peer>& peers, int tag,
                   int64_t piece_bytes);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  static constexpr size_t kWindow = 4;  // pieces in flight per peer and direction

  struct Stream {
    Peer peer;
    int64_t sent = 0;
    int64_t asked = 0;
    std::deque<Pending> sends{};
    std::deque<Pending> receives{};
  };

  Transport* transport_;
  std::vector<Stream> streams_;
  int tag_;
  int64_t piece_bytes_;
};

// Operations one after another. Each begins when the previous one has finished.
class Sequence final : public Operation {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Operation>> operations)
      : operations_(std::move(operations)) {}
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  std::vector<std::unique_ptr<Operation>> operations_;
  size_t current_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_OPERATION_H_
