// shared_exchange.cc - which piece is copied in, reduced and copied out when.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/shared_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/combine.h"
#include "dtrain/comm/internal/stream_copy.h"

namespace dtrain::internal {

size_t SharedChannel::Bytes(int members, int64_t slot_bytes) {
  DT_CHECK_EQ(slot_bytes % 64, 0);
  return static_cast<size_t>(members) *
         (sizeof(Flags) + static_cast<size_t>(kSlots * (slot_bytes + kHeaderBytes)));
}

SharedChannel::SharedChannel(std::shared_ptr<SharedSegment> segment, size_t offset, int members,
                             int me, int64_t slot_bytes)
    : segment_(std::move(segment)),
      flags_(reinterpret_cast<Flags*>(segment_->data() + offset)),
      slots_(segment_->data() + offset + static_cast<size_t>(members) * sizeof(Flags)),
      members_(members),
      me_(me),
      slot_bytes_(slot_bytes) {}

std::byte* SharedChannel::Slot(int member, int64_t piece) const {
  return slots_ + (member * kSlots + piece % kSlots) * (slot_bytes_ + kHeaderBytes) + kHeaderBytes;
}

SharedChannel::Header* SharedChannel::HeaderOf(int member, int64_t piece) const {
  return reinterpret_cast<Header*>(Slot(member, piece) - kHeaderBytes);
}

void SharedChannel::Raise(Flag flag, int64_t value) {
  flags_[me_].values[flag].store(value, std::memory_order_release);
  ++moves_;
}

int64_t SharedChannel::Read(int member, Flag flag) const {
  return flags_[member].values[flag].load(std::memory_order_acquire);
}

bool SharedChannel::AllReached(Flag flag, int64_t value) const {
  for (int m = 0; m < members_; ++m) {
    if (m != me_ && Read(m, flag) < value) return false;
  }
  return true;
}

void SharedChannel::EndTurn(int64_t pieces) {
  first_piece_ += pieces;
  ++turn_;
}

SharedExchange::SharedExchange(SharedChannel* channel, ExchangePlan plan, bool small)
    : channel_(channel),
      plan_(std::move(plan)),
      small_(small),
      reduces_(plan_.reduce || small),
      copies_out_(plan_.gather && !small),
      element_bytes_(static_cast<int64_t>(SizeOf(plan_.dtype))),
      large_(&channel->Large(reduces_, copies_out_)) {
  DT_CHECK_EQ(plan_.offsets.size(), plan_.group.size() + 1);
  DT_CHECK_EQ(plan_.group.size(), static_cast<size_t>(channel->members()));
  // Slices start at cache lines.
  stride_ = channel->slot_bytes() / (small ? 1 : channel->members()) / 64 * 64;
  piece_elements_ = stride_ / element_bytes_;
  if (small) DT_CHECK_LE(plan_.offsets.back(), piece_elements_);
  pieces_ = 1;  // also where there is nothing to exchange: its header is compared
  for (size_t s = 0; s < plan_.group.size() && !small; ++s) {
    const int64_t count = plan_.offsets[s + 1] - plan_.offsets[s];
    DT_CHECK_GE(count, 0);
    pieces_ = std::max(pieces_, (count + piece_elements_ - 1) / piece_elements_);
  }
  // Later pieces are not larger.
  while (!small_ && large_pieces_ < pieces_ && BytesOf(large_pieces_) >= CopyChoice::kLeastBytes) {
    ++large_pieces_;
  }
  // Behind what throws: an exchange that never begins must not keep those behind it waiting.
  ticket_ = channel->NewTicket();
}

SharedExchange::Range SharedExchange::RangeOf(int place, int64_t piece) const {
  if (small_) return {0, static_cast<size_t>(plan_.offsets.back() * element_bytes_)};
  const auto s = static_cast<size_t>(place);
  const int64_t begin = plan_.offsets[s] + piece * piece_elements_;
  const int64_t count = std::clamp<int64_t>(plan_.offsets[s + 1] - begin, 0, piece_elements_);
  return {begin, static_cast<size_t>(count * element_bytes_)};
}

std::byte* SharedExchange::SliceSlot(int member, int64_t piece, int place) const {
  return channel_->Slot(member, base_ + piece) + (small_ ? 0 : place * stride_);
}

size_t SharedExchange::BytesOf(int64_t piece) const {
  size_t bytes = 0;
  for (int place = 0; place < channel_->members(); ++place) bytes += RangeOf(place, piece).bytes;
  return bytes;
}

void SharedExchange::RunStep(void (SharedExchange::*step)(int64_t), int64_t piece) {
  if (piece >= large_pieces_ || !large_->choice.Timed(large_->count + piece)) {
    return (this->*step)(piece);
  }
  const Timer timer;
  (this->*step)(piece);
  large_->choice.Add(large_->count + piece, BytesOf(piece), timer.Seconds());
}

bool SharedExchange::PastCaches(int64_t piece) const {
  return piece < large_pieces_ && large_->choice.PastCaches(large_->count + piece);
}

void SharedExchange::Fill(int64_t piece) {
  const int me = channel_->me();
  const bool past_caches = PastCaches(piece);
  const auto fill = [&](int place) {
    const Range range = RangeOf(place, piece);
    if (range.bytes == 0) return;
    if (past_caches) {
      StreamCopy(SliceSlot(me, piece, place), At(range.begin), range.bytes);
    } else {
      std::memcpy(SliceSlot(me, piece, place), At(range.begin), range.bytes);
    }
    const bool to_one = plan_.reduce && !small_;
    channel_->AddBytesSent(static_cast<int64_t>(range.bytes) *
                           (to_one ? 1 : channel_->members() - 1));
  };
  if (small_ || !plan_.reduce) {
    fill(me);
  } else {
    for (int place = 0; place < channel_->members(); ++place) {
      if (place != me) fill(place);
    }
  }
  if (past_caches) FinishStreamCopies();
}

void SharedExchange::Reduce(int64_t piece) {
  const int me = channel_->me();
  const Range mine = RangeOf(me, piece);
  if (mine.bytes == 0) return;
  std::vector<const std::byte*> sources;
  for (int member = 0; member < channel_->members(); ++member) {
    sources.push_back(member == me ? At(mine.begin) : SliceSlot(member, piece, me));
  }
  const bool past_caches = PastCaches(piece);
  std::byte* const shown = copies_out_ ? SliceSlot(me, piece, me) : nullptr;
  Combine(plan_.dtype, plan_.op, sources, static_cast<int64_t>(mine.bytes) / element_bytes_,
          plan_.divisor, At(mine.begin), shown, past_caches);
  if (!copies_out_) return;
  if (past_caches) FinishStreamCopies();
  channel_->AddBytesSent(static_cast<int64_t>(mine.bytes) * (channel_->members() - 1));
}

void SharedExchange::CopyOut(int64_t piece) {
  const int members = channel_->members();
  for (int k = 1; k < members; ++k) {
    const int place = (channel_->me() + k) % members;
    const Range theirs = RangeOf(place, piece);
    if (theirs.bytes == 0) continue;
    std::memcpy(At(theirs.begin), SliceSlot(place, piece, place), theirs.bytes);
  }
}

SharedChannel::Header SharedExchange::MyHeader() const {
  uint64_t layout = 0;
  for (const int64_t offset : plan_.offsets) {
    layout = (layout ^ static_cast<uint64_t>(offset)) * 0x100000001b3u;
  }
  return {.sequence = plan_.sequence,
          .bytes = plan_.offsets.back() * element_bytes_,
          .layout = layout,
          .dtype = plan_.dtype,
          .op = plan_.op,
          .reduce = reduces_,
          .gather = copies_out_};
}

void SharedExchange::CheckHeaders() {
  if (checked_) return;
  checked_ = true;
  const auto describe = [&](int member, const SharedChannel::Header& header) {
    const int rank = plan_.group[static_cast<size_t>(member)];
    return absl::StrFormat("rank %d is at collective number %d, %d bytes of %s%s%s",
                           plan_.job_ranks[static_cast<size_t>(rank)], header.sequence,
                           header.bytes, ToAbsl(Name(header.dtype)),
                           header.reduce ? " to reduce by " : "",
                           ToAbsl(header.reduce ? Name(header.op) : ""));
  };
  const int me = channel_->me();
  const SharedChannel::Header mine = MyHeader();
  for (int member = 0; member < channel_->members(); ++member) {
    if (member == me) continue;
    const SharedChannel::Header theirs = *channel_->HeaderOf(member, base_);
    if (theirs == mine) continue;
    throw CommError(absl::StrCat("the ranks are out of step: ", describe(me, mine), "; ",
                                 describe(member, theirs)));
  }
}

void SharedExchange::FinishPiece(int64_t piece) {
  if (piece < large_pieces_) large_->choice.Finish(large_->count + piece);
  channel_->Raise(SharedChannel::kDone, base_ + piece + 1);
}

bool SharedExchange::TryFill() {
  if (filled_ == pieces_) return false;
  const int64_t piece = base_ + filled_;
  // The slot was this rank's kSlots pieces ago: all must be done with that one.
  const int64_t free_at = piece + 1 - SharedChannel::kSlots;
  if (filled_ - done_ >= SharedChannel::kSlots ||
      !channel_->AllReached(SharedChannel::kDone, free_at)) {
    return false;
  }
  if (filled_ == 0) *channel_->HeaderOf(channel_->me(), piece) = MyHeader();
  RunStep(&SharedExchange::Fill, filled_++);
  channel_->Raise(SharedChannel::kFilled, piece + 1);
  return true;
}

bool SharedExchange::TryReduce() {
  if (!reduces_ || reduced_ == filled_) return false;
  const int64_t piece = base_ + reduced_;
  if (!channel_->AllReached(SharedChannel::kFilled, piece + 1)) return false;
  CheckHeaders();
  RunStep(&SharedExchange::Reduce, reduced_++);
  channel_->Raise(SharedChannel::kReduced, piece + 1);
  if (!copies_out_) FinishPiece(done_++);
  return true;
}

bool SharedExchange::TryCopyOut() {
  if (!copies_out_ || done_ == (reduces_ ? reduced_ : filled_)) return false;
  const int64_t piece = base_ + done_;
  if (!channel_->AllReached(reduces_ ? SharedChannel::kReduced : SharedChannel::kFilled,
                            piece + 1)) {
    return false;
  }
  CheckHeaders();
  RunStep(&SharedExchange::CopyOut, done_);
  FinishPiece(done_++);
  return true;
}

bool SharedExchange::Progress() {
  if (base_ < 0) {
    if (!channel_->IsTurn(ticket_)) return false;
    base_ = channel_->first_piece();
  }
  // The oldest piece first, while it is in the caches; the next one is filled before waiting.
  while (TryCopyOut() || TryReduce() || TryFill()) {
  }
  if (done_ < pieces_) return false;
  large_->count += large_pieces_;
  channel_->EndTurn(pieces_);
  return true;
}

void SharedExchange::AddMissing(std::vector<int>* ranks) const {
  if (base_ < 0) return;
  // The least that this rank waits for: the flag of the stage its oldest piece is in.
  SharedChannel::Flag flag = SharedChannel::kFilled;
  int64_t value = base_ + done_ + 1;
  if (filled_ == done_ && filled_ < pieces_) {
    flag = SharedChannel::kDone;
    value -= SharedChannel::kSlots;
  } else if (reduces_ && reduced_ > done_) {
    flag = SharedChannel::kReduced;
  }
  for (int m = 0; m < channel_->members(); ++m) {
    if (m == channel_->me() || channel_->Read(m, flag) >= value) continue;
    ranks->push_back(plan_.group[static_cast<size_t>(m)]);
  }
}

}  // namespace dtrain::internal
