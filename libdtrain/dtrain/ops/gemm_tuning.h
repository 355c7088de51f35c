// gemm_tuning.h - how each matrix product on a GPU is computed: suggested or measured, and kept.
// SPDX-License-Identifier: Apache-2.0
//
//   SetGemmTuning(GemmTuning::kMeasure);
//   { const MeasureGemms measure; model.Forward(...); model.Backward(...); }   // results are waste
//   WriteFileAtomically(path, PrintGemmPlans({platform, CurrentGemmPlans()}));
//
// A product of one shape may be computed by many algorithms of cuBLASLt, and what follows it (bias,
// activation, bias gradient) by the product's own kernel or by a kernel of ours. While an object of
// MeasureGemms lives, each shape that is met for the first time is computed in all these ways and
// the fastest is kept; outside, a shape without a measured plan takes the library's first
// suggestion. Plans belong to the thread, that is to the rank: which plan a product takes changes
// the bits of its result, so ranks use the same ones (app/gemm_plan_file.h). On CPUs nothing of
// this has an effect.
#ifndef DTRAIN_OPS_GEMM_TUNING_H_
#define DTRAIN_OPS_GEMM_TUNING_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/cuda/product.h"

namespace dtrain {

enum class GemmTuning {
  kOff,        // the library's first suggestion, and of its epilogues the bias alone
  kHeuristic,  // also its gelu epilogues, on GPUs where they were published to be faster
  kMeasure     // what was measured; a shape without measurement as kHeuristic
};

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
  size_t library_version = 0;
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
GemmTuning CurrentGemmTuning();
void SetGemmTuning(GemmTuning tuning);
const GemmPlans& CurrentGemmPlans();
// Replaces all plans; those that products took so far are forgotten.
void SetGemmPlans(GemmPlans plans);
// Adds a measured plan.
void AddGemmPlan(const cuda::ProductShape& shape, GemmPlan plan);
// Changes with every SetGemmTuning() and SetGemmPlans().
int GemmPlansGeneration();

// While one lives, products of this thread that have no plan yet are measured. Their results and
// sums are waste then: inputs are read and outputs written many times.
class MeasureGemms {
 public:
  MeasureGemms();
  MeasureGemms(const MeasureGemms&) = delete;
  MeasureGemms& operator=(const MeasureGemms&) = delete;
  ~MeasureGemms();

  // With GemmTuning::kMeasure and an object alive on this thread.
  static bool IsOn();
};

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

#endif  // DTRAIN_OPS_GEMM_TUNING_H_
