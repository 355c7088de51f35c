// attention_plans.h - the plans behind ops/attention_engine.h, by shape.
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

// What the choice depends on. How many sequences there are is left out: micro-batches of one run
// have about as many tokens.
struct AttentionPlanShape {
  int64_t max_queries = 0, max_keys = 0;  // by RoundAttentionLength()
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

// Of this thread.
const AttentionPlans& CurrentAttentionPlans();
void SetAttentionPlans(AttentionPlans plans);
void AddAttentionPlan(const AttentionPlanShape& shape, const AttentionPlan& plan);
// With AttentionEngine::kAuto and a MeasureAttention alive.
bool MeasuresAttention();

// Attention by cuDNN where that is the plan. Otherwise false, and nothing was issued; `native`
// issues our kernels, many times while both are measured.
bool RunFusedAttention(const AttentionArgs& host_args, DType type, bool backward,
                       const std::function<void()>& native, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_PLANS_H_
