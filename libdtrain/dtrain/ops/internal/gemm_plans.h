// gemm_plans.h - the matrix product plans of ops/gemm_tuning.h, by shape.
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

// Rounds the shape's extents up, so that batches of nearly the same size share a plan: to multiples
// of 1/8 of the power of two below, at least 8.
cuda::ProductShape PlanShape(const cuda::ProductShape& shape);

// The way a shape is computed.
struct GemmPlan {
  bool fused = true;  // true: by the product's kernel; false: by a plain product and a kernel of
                      // ours
  cuda::ProductAlgorithm algorithm{};  // the algorithm of the fused product
  double microseconds = 0.0;           // median
  std::string note = {};               // one line for human readers
};
using GemmPlans = std::map<cuda::ProductShape, GemmPlan>;

// The plan platform of a GPU. Throws CudaError if cuBLASLt cannot be loaded.
PlanPlatform GemmPlatformOf(const Device& device);

struct GemmPlanFile {
  PlanPlatform platform;
  GemmPlans plans;
};
// The plans as text, one line per plan. ParseGemmPlans returns StorageError with `path`, line and
// field.
std::string PrintGemmPlans(const GemmPlanFile& file);
StatusOr<GemmPlanFile> ParseGemmPlans(std::string_view text, std::string_view path);

// The plans of the calling thread.
const GemmPlans& CurrentGemmPlans();
// Replaces all plans, and forgets the plans that earlier products selected.
void SetGemmPlans(GemmPlans plans);
// Adds a measured plan.
void AddGemmPlan(const cuda::ProductShape& shape, GemmPlan plan);
// A number that changes with every SetGemmTuning() and SetGemmPlans().
int GemmPlansGeneration();
// True if the setting is kMeasure and a MeasureGemms object exists.
bool MeasuresGemms();

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_
