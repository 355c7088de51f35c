// fusion_plan.h - which tensors travel together in one all-reduce.
// SPDX-License-Identifier: Apache-2.0
//
// An exchange of a few bytes costs nearly as much as one of many, so small tensors share one. The
// plan depends on what all ranks agreed on alone: every rank makes the same one.
#ifndef DTRAIN_COMM_INTERNAL_FUSION_PLAN_H_
#define DTRAIN_COMM_INTERNAL_FUSION_PLAN_H_

#include <cstdint>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/internal/collective_request.h"
#include "dtrain/device/stream_order.h"

namespace dtrain::internal {

// One tensor of an all-reduce.
struct ReductionPart {
  const CollectiveRequest* request = nullptr;
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  // Null if this rank has joined.
  const void* from = nullptr;
  void* to = nullptr;
  bool by_nccl = false;
  const StreamMark* ready = nullptr;

  int64_t bytes() const { return count * static_cast<int64_t>(SizeOf(dtype)); }
};

// The tensors of one exchange, one after another.
struct FusedReduction {
  std::vector<ReductionPart> parts;
  int64_t bytes = 0;

  // One tensor that this rank has is reduced in place, without a buffer.
  bool IsInPlace() const { return parts.size() == 1 && parts.front().to != nullptr; }
};

// Each part joins the first exchange of its type, operation and path that has room below
// `fusion_bytes`; else it opens a new exchange.
std::vector<FusedReduction> FuseReductions(const std::vector<ReductionPart>& parts,
                                           int64_t fusion_bytes);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_FUSION_PLAN_H_
