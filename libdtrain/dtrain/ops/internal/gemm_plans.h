// gemm_plans.h - the plans behind ops/gemm_tuning.h, by shape.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_
#define DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/cuda/product.h"
#include "dtrain/ops/gemm_tuning.h"
#include "dtrain/ops/internal/plan_text.h"

namespace dtrain {

// The shape with its extents rounded up, so that batches of nearly the same size share a plan:
// 1/8 of the power of two below, at least 8.
cuda::ProductShape PlanShape(const cuda::ProductShape& shape);

// How a shape is computed.
struct GemmPlan {
  bool fused = true;  // by the product's kernel; false: a plain product and a kernel of ours
  cuda::ProductAlgorithm algorithm{};  // of the fused product
  double microseconds = 0.0;           // median
  std::string note = {};               // for people; one line
};
using GemmPlans = std::map<cuda::ProductShape, GemmPlan>;

// Of a GPU. CudaError where cuBLASLt cannot be loaded.
PlanPlatform GemmPlatformOf(const Device& device);

struct GemmPlanFile {
  PlanPlatform platform;
  GemmPlans plans;
};
// Lines of text, one a plan. ParseGemmPlans gives StorageError with `path`, line and field.
std::string PrintGemmPlans(const GemmPlanFile& file);
StatusOr<GemmPlanFile> ParseGemmPlans(std::string_view text, std::string_view path);

// Of this thread.
const GemmPlans& CurrentGemmPlans();
// Replaces all plans; those that products took so far are forgotten.
void SetGemmPlans(GemmPlans plans);
// Adds a measured plan.
void AddGemmPlan(const cuda::ProductShape& shape, GemmPlan plan);
// Changes with every SetGemmTuning() and SetGemmPlans().
int GemmPlansGeneration();
// With GemmTuning::kMeasure and a MeasureGemms alive.
bool MeasuresGemms();

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_
