// shared_exchange.h - collectives of ranks of one host, through memory they all see.
// SPDX-License-Identifier: Apache-2.0
//
// Each rank has slots in the shared memory. Piece by piece, an allreduce is: copy the others'
// slices of my data into my slot; reduce my slice from all slots, leave the result in mine; copy
// the others' results out of their slots. Slots stay in the caches, where ranks share one
// (copy_choice.h): then memory is read once and written once. Flags that only grow say how far each
// rank is; nobody calls the kernel.
#ifndef DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_
#define DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/comm/internal/copy_choice.h"
#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/shared_segment.h"

namespace dtrain::internal {

// One rank's view of the slots and flags. Operations on a channel take turns in the order in which
// they were made, which is the same on all ranks.
class SharedChannel {
 public:
  static constexpr int64_t kSlots = 4;
  static_assert(CopyChoice::kTimed >= kSlots);
  // How many pieces a rank has copied in, has reduced, and no longer needs of the others.
  enum Flag { kFilled, kReduced, kDone };
  // What a rank does, beside the first piece of it: all ranks must do the same.
  struct Header {
    int64_t sequence = 0;
    int64_t bytes = 0;
    uint64_t layout = 0;  // a hash of where the slices begin
    DType dtype = DType::kUint8;
    ReduceOp op = ReduceOp::kSum;
    bool reduce = false;
    bool gather = false;
    friend bool operator==(const Header&, const Header&) = default;
  };

  static size_t Bytes(int members, int64_t slot_bytes);
  // The memory is Bytes() of zeros from `offset` on in the segment.
  SharedChannel(std::shared_ptr<SharedSegment> segment, size_t offset, int members, int me,
                int64_t slot_bytes);

  int members() const { return members_; }
  int me() const { return me_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  std::byte* Slot(int member, int64_t piece) const;
  Header* HeaderOf(int member, int64_t piece) const;
  // Of this rank: all that it wrote before is seen by who reads the flag.
  void Raise(Flag flag, int64_t value);
  int64_t Read(int member, Flag flag) const;
  // True where every other rank's flag is at least `value`.
  bool AllReached(Flag flag, int64_t value) const;

  int64_t NewTicket() { return next_ticket_++; }
  bool IsTurn(int64_t ticket) const { return ticket == turn_; }
  // The operation whose turn it was used so many pieces.
  void EndTurn(int64_t pieces);
  // Pieces of all operations before this one.
  int64_t first_piece() const { return first_piece_; }
  // Of all large pieces of one kind of exchange.
  struct LargePieces {
    int64_t count = 0;
    CopyChoice choice;
  };
  LargePieces& Large(bool reduce, bool gather) { return large_[reduce ? 1 : 0][gather ? 1 : 0]; }
  // Counts what this rank has done: unchanged means that it waits.
  int64_t moves() const { return moves_; }
  // What messages would have sent.
  int64_t bytes_sent() const { return bytes_sent_; }
  void AddBytesSent(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  static constexpr int64_t kHeaderBytes = 64;
  static_assert(sizeof(Header) <= kHeaderBytes);
  struct alignas(64) Flags {
    std::atomic<int64_t> values[3];
  };

  std::shared_ptr<SharedSegment> segment_;
  Flags* flags_;
  std::byte* slots_;
  int members_;
  int me_;
  int64_t slot_bytes_;
  int64_t next_ticket_ = 0;
  int64_t turn_ = 0;
  int64_t first_piece_ = 0;
  LargePieces large_[2][2];
  int64_t moves_ = 0;
  int64_t bytes_sent_ = 0;
};

// Does what SliceExchange does, and, where `small`, what SmallAllReduce does, on the group of the
// channel. Places in the group are members of the channel.
class SharedExchange final : public Operation {
 public:
  SharedExchange(SharedChannel* channel, ExchangePlan plan, bool small);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  struct Range {
    int64_t begin = 0;
    size_t bytes = 0;
  };

  Range RangeOf(int place, int64_t piece) const;
  std::byte* At(int64_t element) const { return plan_.data + element * element_bytes_; }
  std::byte* SliceSlot(int member, int64_t piece, int place) const;
  SharedChannel::Header MyHeader() const;
  // Throws CommError where another rank does something else.
  void CheckHeaders();
  size_t BytesOf(int64_t piece) const;  // all slices of it
  // Calls a step below, and tells the CopyChoice what it took where that wants to know.
  void RunStep(void (SharedExchange::*step)(int64_t), int64_t piece);
  bool PastCaches(int64_t piece) const;
  bool TryFill();
  bool TryReduce();
  bool TryCopyOut();
  void Fill(int64_t piece);
  void Reduce(int64_t piece);
  void CopyOut(int64_t piece);
  void FinishPiece(int64_t piece);

  SharedChannel* channel_;
  ExchangePlan plan_;
  bool small_;
  bool reduces_;     // has the middle stage
  bool copies_out_;  // has the last stage
  int64_t element_bytes_;
  int64_t piece_elements_;
  int64_t stride_;  // bytes from one slice to the next in a slot
  int64_t pieces_ = 0;
  int64_t large_pieces_ = 0;  // the first ones
  SharedChannel::LargePieces* large_;
  int64_t ticket_ = -1;
  bool checked_ = false;
  int64_t base_ = -1;  // first piece in the channel's count; -1 before this one's turn
  int64_t filled_ = 0;
  int64_t reduced_ = 0;
  int64_t done_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_
