// nccl_links.cc - connects links, launches calls on them, and ends them together.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_links.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "dtrain/comm/internal/rank_groups.h"

namespace dtrain::internal {
namespace {

NcclType NcclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return NcclType::kFloat32;
    case DType::kFloat16:
      return NcclType::kFloat16;
    case DType::kBFloat16:
      return NcclType::kBFloat16;
    case DType::kFloat64:
      return NcclType::kFloat64;
    case DType::kInt32:
      return NcclType::kInt32;
    case DType::kInt64:
      return NcclType::kInt64;
    case DType::kUint8:
      break;
  }
  return NcclType::kUint8;
}

NcclOp NcclOpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return NcclOp::kAverage;
    case ReduceOp::kMin:
      return NcclOp::kMin;
    case ReduceOp::kMax:
      return NcclOp::kMax;
    case ReduceOp::kProduct:
      return NcclOp::kProduct;
    case ReduceOp::kSum:
    case ReduceOp::kBitAnd:
      break;
  }
  return NcclOp::kSum;
}

}  // namespace

const NcclLink& NcclLinks::Connect(NcclLinkKind kind, const NcclUniqueId& id,
                                   const std::vector<int>& group, int rank) {
  Member& member = links_[static_cast<size_t>(kind)];
  member.place = PlaceOf(group, rank);
  member.link = std::make_unique<NcclLink>(nccl_, id, static_cast<int>(group.size()), member.place);
  return *member.link;
}

std::string NcclLinks::Launch(std::span<const NcclPiece> pieces, void* stream) {
  NcclResult result = nccl_.GroupStart();
  for (const NcclPiece& piece : pieces) {
    const NcclResult launched = LaunchPiece(piece, stream);
    if (result == NcclResult::kSuccess) result = launched;
  }
  const NcclResult ended = nccl_.GroupEnd();
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) result = ended;
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return "";
  return At(pieces[0].link).link->ErrorText(result);
}

NcclResult NcclLinks::LaunchPiece(const NcclPiece& piece, void* stream) {
  const NcclCall& call = piece.call;
  const auto count = static_cast<size_t>(call.count);
  const NcclType type = NcclTypeOf(call.dtype);
  const Member& member = At(piece.link);
  // In-place calls of NCCL need a pointer to this rank's own part.
  std::byte* const own =
      call.data + member.place * call.count * static_cast<int64_t>(SizeOf(call.dtype));
  NcclHandle const handle = member.link->handle();
  switch (call.kind) {
    case NcclCall::Kind::kAllReduce:
      return nccl_.AllReduce(call.data, call.data, count, type, NcclOpOf(call.op), handle, stream);
    case NcclCall::Kind::kReduceScatter:
      return nccl_.ReduceScatter(call.data, own, count, type, NcclOpOf(call.op), handle, stream);
    case NcclCall::Kind::kAllGather:
      return nccl_.AllGather(own, call.data, count, type, handle, stream);
    case NcclCall::Kind::kBroadcast:
      return nccl_.Broadcast(call.data, call.data, count, type, call.root, handle, stream);
    // NCCL would let two ranks meet for nothing.
    case NcclCall::Kind::kSend:
      if (count == 0) return NcclResult::kSuccess;
      return nccl_.Send(call.data, count, type, call.root, handle, stream);
    case NcclCall::Kind::kReceive:
      if (count == 0) return NcclResult::kSuccess;
      return nccl_.Receive(call.data, count, type, call.root, handle, stream);
  }
  return NcclResult::kInvalidArgument;
}

bool NcclLinks::IsBusy(std::span<const NcclPiece> pieces) const {
  return std::any_of(pieces.begin(), pieces.end(), [&](const NcclPiece& piece) {
    return At(piece.link).link->State() == NcclResult::kInProgress;
  });
}

std::string NcclLinks::FindError() const {
  for (const Member& member : links_) {
    if (!member.link) continue;
    const NcclResult state = member.link->State();
    if (state == NcclResult::kSuccess || state == NcclResult::kInProgress) continue;
    return member.link->ErrorText(state);
  }
  return "";
}

bool NcclLinks::Finish() {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Member& member) { return !member.link || member.link->Finish(); });
}

void NcclLinks::Abort() {
  // In parallel: each waits for the stream, which moves on when all are aborted.
  std::vector<std::thread> threads;
  for (const Member& member : links_) {
    if (!member.link || member.link->handle() == nullptr) continue;
    threads.emplace_back([link = member.link.get()] { link->Abort(); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dtrain::internal
