// fusion_plan.cc - first fit of tensors into exchanges of their kind.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/fusion_plan.h"

#include <algorithm>

namespace dtrain::internal {

std::vector<FusedReduction> FuseReductions(const std::vector<ReductionPart>& parts,
                                           int64_t fusion_bytes) {
  std::vector<FusedReduction> plan;
  for (const ReductionPart& part : parts) {
    const auto takes = [&](const FusedReduction& fused) {
      const ReductionPart& other = fused.parts.front();
      return other.dtype == part.dtype && other.request->op == part.request->op &&
             other.by_nccl == part.by_nccl && fused.bytes + part.bytes() <= fusion_bytes;
    };
    const auto fused = std::ranges::find_if(plan, takes);
    if (fused == plan.end()) {
      plan.push_back({{part}, part.bytes()});
    } else {
      fused->parts.push_back(part);
      fused->bytes += part.bytes();
    }
  }
  return plan;
}

}  // namespace dtrain::internal
