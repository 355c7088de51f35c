// operation.cc - the state machines: which message is sent, awaited and added when.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/comm/internal/combine.h"

namespace dtrain::internal {
namespace {

// Removes what has finished; true when nothing is left.
bool AllDone(Transport& transport, std::vector<Pending>* pending) {
  std::erase_if(*pending, [&](const Pending& p) { return transport.Done(p.request); });
  return pending->empty();
}

void AddPeers(const std::vector<Pending>& pending, std::vector<int>* ranks) {
  for (const Pending& p : pending) ranks->push_back(p.peer);
}

}  // namespace

ScratchPool::Buffer ScratchPool::Take(size_t bytes) {
  for (Buffer& buffer : free_) {
    if (buffer.size() < bytes) continue;
    Buffer taken = std::move(buffer);
    buffer = std::move(free_.back());
    free_.pop_back();
    return taken;
  }
  return Buffer(bytes);
}

SliceExchange::SliceExchange(Transport* transport, ScratchPool* scratch, ExchangePlan plan)
    : transport_(transport),
      scratch_(scratch),
      plan_(std::move(plan)),
      element_bytes_(static_cast<int64_t>(SizeOf(plan_.dtype))),
      piece_elements_(std::max<int64_t>(plan_.piece_bytes / element_bytes_, 1)) {
  DT_CHECK_EQ(plan_.offsets.size(), plan_.group.size() + 1);
  for (size_t s = 0; s < plan_.group.size(); ++s) {
    const int64_t count = plan_.offsets[s + 1] - plan_.offsets[s];
    DT_CHECK_GE(count, 0);
    pieces_ = std::max(pieces_, (count + piece_elements_ - 1) / piece_elements_);
  }
}

bool SliceExchange::Progress() {
  size_t finished = 0;
  do {
    while (next_ < pieces_ && active_.size() < kWindow) active_.push_back(Launch(next_++));
    // No piece overtakes the one before: messages with one tag are told apart by their order.
    Stage limit = Stage::kDone;
    for (Piece& piece : active_) {
      while (piece.stage < limit && Advance(piece)) {
      }
      limit = piece.stage;
    }
    finished = std::erase_if(active_, [](const Piece& p) { return p.stage == Stage::kDone; });
  } while (finished > 0 && next_ < pieces_);
  return next_ == pieces_ && active_.empty();
}

void SliceExchange::AddMissing(std::vector<int>* ranks) const {
  for (const Piece& piece : active_) {
    // Only what the piece's stage awaits: other requests were not asked and may have finished.
    if (piece.stage == Stage::kSending) {
      AddPeers(piece.sends, ranks);
    } else {
      AddPeers(piece.receives.empty() ? piece.result_sends : piece.receives, ranks);
    }
  }
}

SliceExchange::Range SliceExchange::RangeOf(int slice, int64_t piece) const {
  const auto s = static_cast<size_t>(slice);
  const int64_t begin = plan_.offsets[s] + piece * piece_elements_;
  return {begin, std::clamp<int64_t>(plan_.offsets[s + 1] - begin, 0, piece_elements_)};
}

SliceExchange::Piece SliceExchange::Launch(int64_t index) {
  Piece piece{.index = index};
  if (!plan_.reduce) {
    SendResult(piece);
    StartGather(piece);
    return piece;
  }
  const auto members = static_cast<int>(plan_.group.size());
  const Range mine = RangeOf(plan_.me, index);
  const auto bytes = static_cast<size_t>(mine.count * element_bytes_);
  piece.received = scratch_->Take(static_cast<size_t>(piece_elements_ * element_bytes_ * members));
  for (int k = 1; k < members; ++k) {
    // Each starts with its right neighbour, so that not everyone talks to rank 0 first.
    const int place = (plan_.me + k) % members;
    const int peer = plan_.group[static_cast<size_t>(place)];
    if (bytes > 0) {
      std::byte* const to = piece.received.data() + static_cast<size_t>(place) * bytes;
      piece.receives.push_back({transport_->Receive(peer, plan_.tag, to, bytes), peer});
    }
    const Range theirs = RangeOf(place, index);
    if (theirs.count > 0) {
      piece.sends.push_back({transport_->Send(peer, plan_.tag, At(theirs.begin),
                                              static_cast<size_t>(theirs.count * element_bytes_)),
                             peer});
    }
  }
  return piece;
}

bool SliceExchange::Advance(Piece& piece) {
  switch (piece.stage) {
    case Stage::kReducing:
      if (!AllDone(*transport_, &piece.receives)) return false;
      Reduce(piece);
      if (plan_.gather) SendResult(piece);
      piece.stage = Stage::kSending;
      return true;
    case Stage::kSending:
      // The owner's result lands where the unreduced piece lies, so that must have left.
      if (!AllDone(*transport_, &piece.sends)) return false;
      if (plan_.gather) {
        StartGather(piece);
      } else {
        piece.stage = Stage::kDone;
      }
      return true;
    case Stage::kGathering:
      if (!AllDone(*transport_, &piece.receives)) return false;
      if (!AllDone(*transport_, &piece.result_sends)) return false;
      piece.stage = Stage::kDone;
      return true;
    case Stage::kDone:
      return false;
  }
  return false;
}

void SliceExchange::Reduce(Piece& piece) {
  const Range mine = RangeOf(plan_.me, piece.index);
  const auto bytes = static_cast<size_t>(mine.count * element_bytes_);
  if (bytes > 0) {
    std::vector<const std::byte*> sources(plan_.group.size());
    for (size_t place = 0; place < sources.size(); ++place) {
      sources[place] = piece.received.data() + place * bytes;
    }
    sources[static_cast<size_t>(plan_.me)] = At(mine.begin);
    Combine(plan_.dtype, plan_.op, sources, mine.count, plan_.divisor, At(mine.begin));
  }
  scratch_->Give(std::move(piece.received));
}

void SliceExchange::SendResult(Piece& piece) {
  const Range mine = RangeOf(plan_.me, piece.index);
  if (mine.count == 0) return;
  const auto members = static_cast<int>(plan_.group.size());
  for (int k = 1; k < members; ++k) {
    const int peer = plan_.group[static_cast<size_t>((plan_.me + k) % members)];
    piece.result_sends.push_back(
        {transport_->Send(peer, plan_.tag + 1, At(mine.begin),
                          static_cast<size_t>(mine.count * element_bytes_)),
         peer});
  }
}

void SliceExchange::StartGather(Piece& piece) {
  piece.stage = Stage::kGathering;
  const auto members = static_cast<int>(plan_.group.size());
  for (int k = 1; k < members; ++k) {
    const int place = (plan_.me + k) % members;
    const Range theirs = RangeOf(place, piece.index);
    if (theirs.count == 0) continue;
    const int peer = plan_.group[static_cast<size_t>(place)];
    piece.receives.push_back(
        {transport_->Receive(peer, plan_.tag + 1, At(theirs.begin),
                             static_cast<size_t>(theirs.count * element_bytes_)),
         peer});
  }
}

SmallAllReduce::SmallAllReduce(Transport* transport, ScratchPool* scratch, ExchangePlan plan)
    : transport_(transport),
      scratch_(scratch),
      plan_(std::move(plan)),
      count_(plan_.offsets.back()),
      bytes_(static_cast<size_t>(count_) * SizeOf(plan_.dtype)) {
  const auto members = static_cast<int>(plan_.group.size());
  copies_ = scratch_->Take(bytes_ * static_cast<size_t>(members));
  std::byte* const mine = copies_.data() + static_cast<size_t>(plan_.me) * bytes_;
  if (bytes_ > 0) std::memcpy(mine, plan_.data, bytes_);
  for (int k = 1; k < members; ++k) {
    const int place = (plan_.me + k) % members;
    const int peer = plan_.group[static_cast<size_t>(place)];
    std::byte* const to = copies_.data() + static_cast<size_t>(place) * bytes_;
    receives_.push_back({transport_->Receive(peer, plan_.tag, to, bytes_), peer});
  }
  for (int k = 1; k < members; ++k) {
    const int peer = plan_.group[static_cast<size_t>((plan_.me + k) % members)];
    sends_.push_back({transport_->Send(peer, plan_.tag, mine, bytes_), peer});
  }
}

bool SmallAllReduce::Progress() {
  if (!reduced_) {
    if (!AllDone(*transport_, &receives_)) return false;
    std::vector<const std::byte*> sources(plan_.group.size());
    for (size_t place = 0; place < sources.size(); ++place) {
      sources[place] = copies_.data() + place * bytes_;
    }
    Combine(plan_.dtype, plan_.op, sources, count_, plan_.divisor, plan_.data);
    reduced_ = true;
  }
  if (!AllDone(*transport_, &sends_)) return false;
  scratch_->Give(std::move(copies_));
  return true;
}

void SmallAllReduce::AddMissing(std::vector<int>* ranks) const {
  AddPeers(receives_.empty() ? sends_ : receives_, ranks);
}

TreeBroadcast::TreeBroadcast(Transport* transport, const ExchangePlan& plan)
    : transport_(transport), plan_(plan) {
  // Place 0 is the root; the parent of a place is the place without its lowest set bit.
  const auto members = static_cast<int>(plan_.group.size());
  const int lowest = plan_.me == 0 ? members : plan_.me & -plan_.me;
  if (plan_.me != 0) parent_ = plan_.group[static_cast<size_t>(plan_.me - lowest)];
  for (int bit = 1; bit < lowest && plan_.me + bit < members; bit *= 2) {
    const int place = plan_.me + bit;
    children_.push_back(plan_.group[static_cast<size_t>(place)]);
  }
  std::reverse(children_.begin(), children_.end());  // the deepest subtree first
}

bool TreeBroadcast::Progress() {
  const int64_t total = plan_.offsets.back();
  const auto piece_at = [&](int64_t begin) {
    return static_cast<size_t>(std::min(plan_.piece_bytes, total - begin));
  };
  const auto forward = [&](int64_t begin) {
    for (const int child : children_) {
      sends_.push_back(
          {transport_->Send(child, plan_.tag, plan_.data + begin, piece_at(begin)), child});
    }
  };
  AllDone(*transport_, &sends_);
  while (received_ < total && sends_.size() <= kWindow * children_.size()) {
    if (parent_ >= 0) {
      while (asked_ < total && receives_.size() < kWindow) {
        const size_t bytes = piece_at(asked_);
        receives_.push_back(
            {transport_->Receive(parent_, plan_.tag, plan_.data + asked_, bytes), parent_});
        asked_ += static_cast<int64_t>(bytes);
      }
      if (!transport_->Done(receives_.front().request)) return false;
      receives_.pop_front();
    }
    forward(received_);
    received_ += static_cast<int64_t>(piece_at(received_));
  }
  return received_ == total && sends_.empty();
}

void TreeBroadcast::AddMissing(std::vector<int>* ranks) const {
  if (!receives_.empty()) {
    ranks->push_back(parent_);
  } else {
    AddPeers(sends_, ranks);
  }
}

PairwiseExchange::PairwiseExchange(Transport* transport, const std::vector<Peer>& peers, int tag,
                                   int64_t piece_bytes)
    : transport_(transport), tag_(tag), piece_bytes_(piece_bytes) {
  for (const Peer& peer : peers) streams_.push_back({.peer = peer});
}

bool PairwiseExchange::Progress() {
  const auto retire = [&](std::deque<Pending>& pending) {
    while (!pending.empty() && transport_->Done(pending.front().request)) pending.pop_front();
  };
  bool finished = true;
  for (Stream& s : streams_) {
    retire(s.sends);
    retire(s.receives);
    while (s.asked < s.peer.to_bytes && s.receives.size() < kWindow) {
      const int64_t bytes = std::min(piece_bytes_, s.peer.to_bytes - s.asked);
      s.receives.push_back(
          {transport_->Receive(s.peer.rank, tag_, s.peer.to + s.asked, static_cast<size_t>(bytes)),
           s.peer.rank});
      s.asked += bytes;
    }
    while (s.sent < s.peer.from_bytes && s.sends.size() < kWindow) {
      const int64_t bytes = std::min(piece_bytes_, s.peer.from_bytes - s.sent);
      s.sends.push_back(
          {transport_->Send(s.peer.rank, tag_, s.peer.from + s.sent, static_cast<size_t>(bytes)),
           s.peer.rank});
      s.sent += bytes;
    }
    finished = finished && s.sends.empty() && s.receives.empty();
  }
  return finished;
}

void PairwiseExchange::AddMissing(std::vector<int>* ranks) const {
  for (const Stream& s : streams_) {
    if (!s.receives.empty() || !s.sends.empty()) ranks->push_back(s.peer.rank);
  }
}

bool Sequence::Progress() {
  while (current_ < operations_.size()) {
    if (!operations_[current_]->Progress()) return false;
    operations_[current_++].reset();
  }
  return true;
}

void Sequence::AddMissing(std::vector<int>* ranks) const {
  if (current_ < operations_.size()) operations_[current_]->AddMissing(ranks);
}

}  // namespace dtrain::internal
