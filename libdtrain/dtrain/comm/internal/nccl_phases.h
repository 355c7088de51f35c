// nccl_phases.h - divides a collective on GPUs among links: the flat or the hierarchical path.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NCCL_PHASES_H_
#define DTRAIN_COMM_INTERNAL_NCCL_PHASES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

struct NcclCall {
  // The last two are parts of an all-to-all, which has both for each rank.
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

  Kind kind;
  std::byte* data;
  int64_t count;
  DType dtype;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;  // or the other rank of a part of an all-to-all

  // Whether all ranks issue it with the same values.
  bool IsAlikeOnAllRanks() const { return kind != Kind::kSend && kind != Kind::kReceive; }
};
// "AllReduce of 1024 float32"
std::string Describe(const NcclCall& call);

// Links all ranks, the ranks of this host, or one rank of each host.
enum class NcclLinkKind : size_t { kWorld, kHost, kCross };
inline constexpr size_t kNcclLinks = 3;

// A call on one link.
struct NcclPiece {
  NcclLinkKind link;
  NcclCall call;
};
// The pieces of one phase may travel together. The phases follow one another.
using NcclPhases = std::array<std::vector<NcclPiece>, 3>;

// The place of this rank in the hierarchy.
struct NcclHierarchy {
  int local_rank = 0;
  int local_size = 1;
  int64_t small_bytes = 0;  // an allreduce up to this size takes the flat path
};

// Adds the pieces of `call` to `phases`. hierarchy: null for the flat path. In a hierarchy the
// ranks of a host share the sum out: each adds its share with its counterparts on the other hosts,
// then the ranks of the host gather the shares. A remainder that cannot be divided takes the flat
// path.
void AddNcclPieces(const NcclCall& call, const NcclHierarchy* hierarchy, NcclPhases& phases);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_PHASES_H_
