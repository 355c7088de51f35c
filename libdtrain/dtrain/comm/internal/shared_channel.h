// shared_channel.h - slots and flags in shared memory, by which ranks of a host exchange pieces.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SHARED_CHANNEL_H_
#define DTRAIN_COMM_INTERNAL_SHARED_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/copy_policy.h"
#include "dtrain/comm/internal/shared_segment.h"

namespace dtrain::internal {

// One rank's view of the slots and flags. Operations of a channel take turns in the order in which
// they were made, which is the same on all ranks.
class SharedChannel {
 public:
  static constexpr int64_t kSlots = 4;
  static_assert(CopyPolicy::kTimed >= kSlots);
  // Each flag counts pieces: those that a rank has copied in, those it has reduced, and those it no
  // longer needs of the others.
  enum Flag { kFilled, kReduced, kDone };
  // Stands next to the first piece of an operation and says which operation it is. All ranks must
  // do the same one.
  struct Header {
    int64_t sequence = 0;
    int64_t bytes = 0;
    uint64_t layout = 0;  // a hash of the beginnings of the slices
    DType dtype = DType::kUint8;
    ReduceOp op = ReduceOp::kSum;
    bool reduce = false;
    bool gather = false;
    friend bool operator==(const Header&, const Header&) = default;
  };

  static size_t Bytes(int members, int64_t slot_bytes);
  // The channel is Bytes() of zeros in the segment, at `offset`.
  SharedChannel(std::shared_ptr<SharedSegment> segment, size_t offset, int members, int me,
                int64_t slot_bytes);

  int members() const { return members_; }
  int me() const { return me_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  std::byte* Slot(int member, int64_t piece) const;
  Header* HeaderOf(int member, int64_t piece) const;
  // Sets a flag of this rank. A rank that reads the value sees everything written before.
  void Raise(Flag flag, int64_t value);
  int64_t Read(int member, Flag flag) const;
  // True if every other rank's flag is at least `value`.
  bool AllReached(Flag flag, int64_t value) const;

  int64_t NewTicket() { return next_ticket_++; }
  bool IsTurn(int64_t ticket) const { return ticket == turn_; }
  // Ends the turn of an operation that used this many pieces.
  void EndTurn(int64_t pieces);
  // The number of pieces of all operations before the one whose turn it is.
  int64_t first_piece() const { return first_piece_; }
  // The large pieces of one kind of exchange so far, and how they are copied.
  struct LargePieces {
    int64_t count = 0;
    CopyPolicy choice;
  };
  LargePieces& Large(bool reduce, bool gather) { return large_[reduce ? 1 : 0][gather ? 1 : 0]; }
  // Counts what this rank has done. While it is unchanged, this rank waits.
  int64_t moves() const { return moves_; }
  // The bytes that messages would have sent.
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

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SHARED_CHANNEL_H_
