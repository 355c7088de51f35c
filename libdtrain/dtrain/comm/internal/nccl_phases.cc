// nccl_phases.cc - reduce-scatter, allreduce, all-gather; or one call.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_phases.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {

std::string Describe(const NcclCall& call) {
  static constexpr std::array<const char*, 6> kNames = {"AllReduce", "ReduceScatter", "AllGather",
                                                        "Broadcast", "AllToAll",      "AllToAll"};
  if (!call.IsAlikeOnAllRanks()) return kNames[static_cast<size_t>(call.kind)];
  return absl::StrFormat("%s of %d %s", kNames[static_cast<size_t>(call.kind)], call.count,
                         ToAbsl(Name(call.dtype)));
}

void AddNcclPieces(const NcclCall& call, const NcclHierarchy* hierarchy, NcclPhases& phases) {
  const auto size = static_cast<int64_t>(SizeOf(call.dtype));
  if (hierarchy == nullptr || call.kind != NcclCall::Kind::kAllReduce ||
      call.count * size <= hierarchy->small_bytes) {
    return phases[0].push_back({NcclLinkKind::kWorld, call});
  }
  const int64_t share = call.count / hierarchy->local_size;
  NcclCall part = call;
  part.kind = NcclCall::Kind::kReduceScatter;
  part.count = share;
  phases[0].push_back({NcclLinkKind::kHost, part});
  NcclCall across = part;
  across.kind = NcclCall::Kind::kAllReduce;
  across.data += hierarchy->local_rank * share * size;
  phases[1].push_back({NcclLinkKind::kCross, across});
  part.kind = NcclCall::Kind::kAllGather;
  phases[2].push_back({NcclLinkKind::kHost, part});
  const int64_t divided = hierarchy->local_size * share;
  if (call.count == divided) return;
  NcclCall tail = call;
  tail.data += divided * size;
  tail.count -= divided;
  phases[0].push_back({NcclLinkKind::kWorld, tail});
}

}  // namespace dtrain::internal
