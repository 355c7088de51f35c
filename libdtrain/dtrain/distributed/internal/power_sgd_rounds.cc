// power_sgd_rounds.cc - counters of the rounds, and what starts when.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/power_sgd_rounds.h"

namespace dtrain::internal {

PowerSgdRounds::PowerSgdRounds(const FactorLayout& layout, float* gradients, DType wire_type,
                               MatrixCompressor& compressor, PowerSgdGroups& groups)
    : compressor_(compressor), groups_(groups), gradients_(gradients) {
  pieces_.reserve(layout.pieces().size());
  for (const FactorPiece& piece : layout.pieces()) {
    pieces_.emplace_back(&piece, wire_type, groups.all().size());
  }
}

void PowerSgdRounds::Prepare(size_t begin, size_t end) {
  if (groups_.has_shares()) return;  // the share is not summed yet
  for (size_t i = begin; i < end; ++i) pieces_[i].Encode(step_, gradients_, compressor_);
}

void PowerSgdRounds::Start(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    ++started_;
    if (groups_.has_shares()) {
      pieces_[i].StartShare(gradients_, groups_.shares());
    } else {
      StartFirst();
    }
  }
}

void PowerSgdRounds::StartFirst() {
  PowerSgdPiece& piece = pieces_[next_first_++];
  if (groups_.has_shares()) piece.Encode(step_, gradients_, compressor_);
  piece.StartFirst(groups_.first());
}

void PowerSgdRounds::StartSecond() {
  PowerSgdPiece& piece = pieces_[next_second_++];
  finite_ = piece.StartSecond(gradients_, compressor_, groups_.second()) && finite_;
}

void PowerSgdRounds::FinishPiece() {
  PowerSgdPiece& piece = pieces_[finished_++];
  finite_ = piece.WriteSums(gradients_, compressor_) && finite_;
  if (groups_.has_shares()) piece.StartGather(gradients_, groups_.gathers());
}

void PowerSgdRounds::Advance() {
  while (next_first_ < started_ && pieces_[next_first_].share().IsOver()) StartFirst();
  while (next_second_ < next_first_ && pieces_[next_second_].first().IsOver()) StartSecond();
  // One piece at a time, and only when nothing waits to be sent: other pieces move between calls
  // alone.
  if (next_first_ == started_ && finished_ < next_second_ && pieces_[finished_].second().IsOver()) {
    FinishPiece();
  }
}

bool PowerSgdRounds::HaveArrived(size_t end) const {
  return end <= next_second_ && pieces_[end - 1].second().IsOver();
}

void PowerSgdRounds::Wait(size_t end) {
  while (next_first_ < end) {
    pieces_[next_first_].share().Wait();
    StartFirst();
  }
  while (next_second_ < end) {
    pieces_[next_second_].first().Wait();
    StartSecond();
  }
  for (size_t i = 0; i < end; ++i) pieces_[i].second().Wait();
}

bool PowerSgdRounds::Finish() {
  while (finished_ < pieces_.size()) FinishPiece();
  // Each place has seen its share only. All of them must agree that the step was good.
  if (groups_.has_shares()) {
    finite_ = groups_.shares().AllReduceValue<int32_t>(finite_ ? 1 : 0, ReduceOp::kMin) != 0;
  }
  for (const PowerSgdPiece& piece : pieces_) piece.gather().Wait();
  const bool finite = finite_;
  if (finite) {
    compressor_.KeepErrors();
    for (PowerSgdPiece& piece : pieces_) piece.KeepFactors(compressor_);
  }
  started_ = next_first_ = next_second_ = finished_ = 0;
  finite_ = true;
  return finite;
}

}  // namespace dtrain::internal
