// shared_exchange.h - collectives of the ranks of one host, through memory that all of them see.
// SPDX-License-Identifier: Apache-2.0
//
// Each rank has slots in the shared memory. An allreduce does three steps for each piece. A rank
// copies the others' slices of its data into its slot. It reduces its own slice from all slots and
// leaves the result in its slot. Then it copies the others' results out of their slots. If ranks
// share a cache, slots stay in it (copy_policy.h): memory is read once and written once. Flags that
// only grow say how far each rank is; no rank calls the kernel.
#ifndef DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_
#define DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/shared_channel.h"
#include "dtrain/comm/internal/slice_layout.h"

namespace dtrain::internal {

// Does the same as SliceExchange, or as SmallAllReduce if `small`, for the group of the channel.
// Places in the group are members of the channel.
class SharedExchange final : public Operation {
 public:
  SharedExchange(SharedChannel* channel, ExchangePlan plan, bool small);
  bool Progress() override;
  void AddMissing(std::vector<int>* ranks) const override;

 private:
  std::byte* At(int64_t element) const { return plan_.data + element * layout_.element_bytes(); }
  std::byte* SliceSlot(int member, int64_t piece, int place) const;
  SharedChannel::Header MyHeader() const;
  // Throws CommError if another rank does something else.
  void CheckHeaders();
  // Calls one of the steps below, and measures it if the CopyPolicy asks for that.
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
  bool reduces_;     // has the second step
  bool copies_out_;  // has the third step
  SliceLayout layout_;
  int64_t large_pieces_;  // the first ones
  SharedChannel::LargePieces* large_;
  int64_t ticket_;
  bool checked_ = false;  // the headers
  int64_t base_ = -1;     // first piece in the channel's count, or -1 before this one's turn
  // Pieces that have passed each step.
  int64_t filled_ = 0;
  int64_t reduced_ = 0;
  int64_t done_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SHARED_EXCHANGE_H_
