// gemm_plans.h - the plans behind ops/gemm_tuning.h, by shape, and the choice by medians.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_
#define DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/cuda/product.h"
#include "dtrain/ops/gemm_tuning.h"

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

// What measured plans hold for: algorithms are words of one version of the library, times those of
// one kind of GPU.
struct GemmPlatform {
  size_t cublaslt_version = 0;
  std::string gpu;

  friend bool operator==(const GemmPlatform&, const GemmPlatform&) = default;
};
// Of a GPU. CudaError where cuBLASLt cannot be loaded.
GemmPlatform GemmPlatformOf(const Device& device);

struct GemmPlanFile {
  GemmPlatform platform;
  GemmPlans plans;
};
// Lines of text, one a plan. ParseGemmPlans gives StorageError with `path`, line and field.
std::string PrintGemmPlans(const GemmPlanFile& file);
absl::StatusOr<GemmPlanFile> ParseGemmPlans(std::string_view text, std::string_view path);

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

// Of `count` ways the fastest by the median of several rounds, in which all take turns, so that a
// GPU that slows down slows all. `seconds_of(i)` runs way i; none where it cannot run, which drops
// it. An earlier way wins unless a later one is faster by more than 2 %. None where none runs.
struct FastestWay {
  size_t index = 0;
  double seconds = 0.0;
};
std::optional<FastestWay> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_PLANS_H_
