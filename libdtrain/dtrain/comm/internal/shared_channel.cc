// shared_channel.cc - addresses of slots, and flags with their order of memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/shared_channel.h"

#include <utility>

#include "dtrain/base/check.h"

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

}  // namespace dtrain::internal
