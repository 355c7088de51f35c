// attention_engine.cc - the attention plans of a thread and their text format.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/attention_engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/device/cuda/fused_attention.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/ops/internal/attention_plans.h"
#include "dtrain/ops/internal/plan_text.h"

namespace dtrain {
namespace {

constexpr PlanFormat kAttentionPlanFormat = {
    .title = "dtrain attention plans",
    .version = 1,
    .library = "cudnn",
    .comment =
        "queries and keys: longest sequences, rounded up to powers of "
        "two; us: median of the faster engine"};
constexpr std::string_view kEngines[] = {"native", "cudnn"};

struct EngineState {
  AttentionEngine engine = AttentionEngine::kNative;
  AttentionPlans plans;
  int measuring = 0;
};
EngineState& EngineOfThread() {
  thread_local EngineState state;
  return state;
}

PlanPlatform PlatformOf([[maybe_unused]] const Device& device) {
  PlanPlatform platform;
  if constexpr (kWithCuda) {
    platform.library_version = cuda::FusedAttentionVersion();
    platform.gpu = cuda::Properties(device).name;
  }
  return platform;
}

std::string AttentionPlanLine(const AttentionPlanShape& shape, const AttentionPlan& plan) {
  return absl::StrFormat(
      "queries=%d keys=%d heads=%d dim=%d causal=%d backward=%d type=%s us=%.2f by=%s\n",
      shape.max_queries, shape.max_keys, shape.num_heads, shape.head_dim, shape.causal,
      shape.backward, PlanTypeName(shape.type), plan.microseconds,
      kEngines[static_cast<size_t>(plan.cudnn)]);
}

std::pair<AttentionPlanShape, AttentionPlan> ReadAttentionPlan(PlanFields& read) {
  AttentionPlanShape shape;
  AttentionPlan plan;
  shape.max_queries = read.Extent("queries", 1);
  shape.max_keys = read.Extent("keys", 1);
  shape.num_heads = read.Extent("heads", 1);
  shape.head_dim = read.Extent("dim", 1);
  shape.causal = read.Flag("causal");
  shape.backward = read.Flag("backward");
  shape.type = read.Type("type");
  plan.microseconds = read.Parse<double>("us", read.Text("us"));
  plan.cudnn = read.OneOf("by", kEngines, [](std::string_view name) { return name; }) == 1;
  return {shape, plan};
}

}  // namespace

AttentionEngine CurrentAttentionEngine() { return EngineOfThread().engine; }
void SetAttentionEngine(AttentionEngine engine) { EngineOfThread().engine = engine; }

bool HasWarpgroupAttention([[maybe_unused]] const Device& device) {
  if constexpr (kWithCuda) {
    return device.type == DeviceType::kCuda && HasWarpgroupKernels(device);
  } else {
    return false;
  }
}

std::string WhyNoCudnn() {
  if constexpr (kWithCuda) {
    return cuda::WhyNoFusedAttention();
  } else {
    return "this program was built without the CUDA device";
  }
}

MeasureAttention::MeasureAttention() { ++EngineOfThread().measuring; }
MeasureAttention::~MeasureAttention() { --EngineOfThread().measuring; }

bool MeasuresAttention() {
  const EngineState& state = EngineOfThread();
  return state.measuring > 0 && state.engine == AttentionEngine::kAuto;
}

int64_t RoundAttentionLength(int64_t length) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length, 64))));
}

const AttentionPlans& CurrentAttentionPlans() { return EngineOfThread().plans; }
void SetAttentionPlans(AttentionPlans plans) { EngineOfThread().plans = std::move(plans); }
void AddAttentionPlan(const AttentionPlanShape& shape, const AttentionPlan& plan) {
  EngineOfThread().plans.insert_or_assign(shape, plan);
}

size_t CountAttentionPlans() { return CurrentAttentionPlans().size(); }

std::string PrintAttentionPlans(const Device& device) {
  std::string text = PlanTextHeader(kAttentionPlanFormat, PlatformOf(device));
  for (const auto& [shape, plan] : CurrentAttentionPlans()) text += AttentionPlanLine(shape, plan);
  return text;
}

StatusOr<bool> UseAttentionPlans(std::string_view text, std::string_view path,
                                 const Device& device) {
  AttentionPlans plans;
  const auto read = [&](PlanFields& fields, const std::string&) {
    plans.insert(ReadAttentionPlan(fields));
  };
  DT_ASSIGN_OR_RETURN(const PlanPlatform platform,
                      ParsePlanText(kAttentionPlanFormat, text, path, read));
  const bool fits = platform == PlatformOf(device);
  SetAttentionPlans(fits ? std::move(plans) : AttentionPlans());
  return fits;
}

}  // namespace dtrain
