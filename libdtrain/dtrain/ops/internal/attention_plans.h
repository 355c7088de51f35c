// attention_plans.h - the attention plans of ops/attention_engine.h, by shape.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_PLANS_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_PLANS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>

#include "dtrain/base/dtype.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/attention_engine.h"
#include "dtrain/ops/internal/attention_kernel.h"

namespace dtrain {

// The properties that a plan depends on. The number of sequences is not one of them: micro-batches
// of a run have about the same number of tokens.
struct AttentionPlanShape {
  int64_t max_queries = 0, max_keys = 0;  // rounded by RoundAttentionLength()
  int64_t num_heads = 0, head_dim = 0;
  bool causal = false, backward = false;
  DType type = DType::kBFloat16;

  friend auto operator<=>(const AttentionPlanShape&, const AttentionPlanShape&) = default;
};

struct AttentionPlan {
  bool cudnn = false;
  double microseconds = 0.0;  // median
};
using AttentionPlans = std::map<AttentionPlanShape, AttentionPlan>;

// The plans of the calling thread.
const AttentionPlans& CurrentAttentionPlans();
void SetAttentionPlans(AttentionPlans plans);
void AddAttentionPlan(const AttentionPlanShape& shape, const AttentionPlan& plan);
// True if the engine is kAuto and a MeasureAttention object exists.
bool MeasuresAttention();

// Runs attention by cuDNN if that is the plan. Otherwise returns false without issuing anything.
// `native` issues our kernels; it is called many times while both engines are measured.
bool RunFusedAttention(const AttentionArgs& host_args, DType type, bool backward,
                       const std::function<void()>& native, Stream& stream);

// True if this program has code for the GPU's warpgroup products, which the GPU has.
bool HasWarpgroupKernels(const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_PLANS_H_
