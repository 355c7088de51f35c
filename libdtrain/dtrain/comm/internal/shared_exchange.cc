// shared_exchange.cc - the order in which pieces are copied in, reduced and copied out.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/shared_exchange.h"

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
namespace {

SliceLayout LayoutOf(const ExchangePlan& plan, const SharedChannel& channel, bool small) {
  DT_CHECK_EQ(plan.offsets.size(), plan.group.size() + 1);
  DT_CHECK_EQ(plan.group.size(), static_cast<size_t>(channel.members()));
  return {plan.offsets, static_cast<int64_t>(SizeOf(plan.dtype)), channel.slot_bytes(), small};
}

}  // namespace

SharedExchange::SharedExchange(SharedChannel* channel, ExchangePlan plan, bool small)
    : channel_(channel),
      plan_(std::move(plan)),
      small_(small),
      reduces_(plan_.reduce || small),
      copies_out_(plan_.gather && !small),
      layout_(LayoutOf(plan_, *channel, small)),
      large_pieces_(small ? 0 : layout_.PiecesOfAtLeast(CopyPolicy::kLeastBytes)),
      large_(&channel->Large(reduces_, copies_out_)),
      // Taken after everything that throws: an exchange that never begins would keep the later ones
      // waiting.
      ticket_(channel->NewTicket()) {}

std::byte* SharedExchange::SliceSlot(int member, int64_t piece, int place) const {
  return channel_->Slot(member, base_ + piece) + layout_.SlotOffset(place);
}

void SharedExchange::RunStep(void (SharedExchange::*step)(int64_t), int64_t piece) {
  if (piece >= large_pieces_ || !large_->choice.Timed(large_->count + piece)) {
    return (this->*step)(piece);
  }
  const Timer timer;
  (this->*step)(piece);
  large_->choice.Add(large_->count + piece, layout_.BytesOf(piece), timer.Seconds());
}

bool SharedExchange::PastCaches(int64_t piece) const {
  return piece < large_pieces_ && large_->choice.PastCaches(large_->count + piece);
}

void SharedExchange::Fill(int64_t piece) {
  const int me = channel_->me();
  const bool past_caches = PastCaches(piece);
  const auto fill = [&](int place) {
    const SliceLayout::Range range = layout_.RangeOf(place, piece);
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
  const SliceLayout::Range mine = layout_.RangeOf(me, piece);
  if (mine.bytes == 0) return;
  std::vector<const std::byte*> sources;
  for (int member = 0; member < channel_->members(); ++member) {
    sources.push_back(member == me ? At(mine.begin) : SliceSlot(member, piece, me));
  }
  const bool past_caches = PastCaches(piece);
  std::byte* const shown = copies_out_ ? SliceSlot(me, piece, me) : nullptr;
  Combine(plan_.dtype, plan_.op, sources,
          static_cast<int64_t>(mine.bytes) / layout_.element_bytes(), plan_.divisor, At(mine.begin),
          shown, past_caches);
  if (!copies_out_) return;
  if (past_caches) FinishStreamCopies();
  channel_->AddBytesSent(static_cast<int64_t>(mine.bytes) * (channel_->members() - 1));
}

void SharedExchange::CopyOut(int64_t piece) {
  const int members = channel_->members();
  for (int k = 1; k < members; ++k) {
    const int place = (channel_->me() + k) % members;
    const SliceLayout::Range theirs = layout_.RangeOf(place, piece);
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
          .bytes = plan_.offsets.back() * layout_.element_bytes(),
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
  if (filled_ == layout_.pieces()) return false;
  const int64_t piece = base_ + filled_;
  // This slot held a piece kSlots pieces ago. All ranks must be done with that piece.
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
  // Works on the oldest piece first, while it is in the caches. Fills the next one before waiting.
  while (TryCopyOut() || TryReduce() || TryFill()) {
  }
  if (done_ < layout_.pieces()) return false;
  large_->count += large_pieces_;
  channel_->EndTurn(layout_.pieces());
  return true;
}

void SharedExchange::AddMissing(std::vector<int>* ranks) const {
  if (base_ < 0) return;
  // This rank waits at least for the flag of the step that its oldest piece is in.
  SharedChannel::Flag flag = SharedChannel::kFilled;
  int64_t value = base_ + done_ + 1;
  if (filled_ == done_ && filled_ < layout_.pieces()) {
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
