// gemm_tuning.h - how matrix products on a GPU are computed: as suggested, or as measured.
// SPDX-License-Identifier: Apache-2.0
//
//   SetGemmTuning(GemmTuning::kMeasure);
//   { const MeasureGemms measure; model.Forward(...); model.Backward(...); }   // results are waste
//   WriteFileAtomically(path, PrintGemmPlans(device));
//
// A product of one shape may be computed by many algorithms of cuBLASLt, and what follows it (bias,
// activation, bias gradient) by the product's own kernel or by a kernel of ours. While an object of
// MeasureGemms lives, each shape that is met for the first time is computed in all these ways and
// the fastest is kept; outside, a shape without a measured plan takes the library's first
// suggestion. Plans belong to the thread, that is to the rank: which plan a product takes changes
// the bits of its result, so ranks use the same ones (launch/gemm_plan_file.h). On CPUs nothing
// of this has an effect.
#ifndef DTRAIN_OPS_GEMM_TUNING_H_
#define DTRAIN_OPS_GEMM_TUNING_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/device.h"

namespace dtrain {

enum class GemmTuning {
  kOff,        // the library's first suggestion, and of its epilogues the bias alone
  kHeuristic,  // also its gradient of gelu, on GPUs where that was published to be faster
  kMeasure     // what was measured; a shape without measurement as kHeuristic
};

// Of this thread.
GemmTuning CurrentGemmTuning();
void SetGemmTuning(GemmTuning tuning);

// While one lives, products of this thread that have no measured plan are measured, with
// GemmTuning::kMeasure. Their results and sums are waste then: inputs are read and outputs written
// many times.
class MeasureGemms {
 public:
  MeasureGemms();
  MeasureGemms(const MeasureGemms&) = delete;
  MeasureGemms& operator=(const MeasureGemms&) = delete;
  ~MeasureGemms();
};

// Measured plans of this thread.
size_t CountGemmPlans();
// The same as lines of text, headed by what they hold for: cuBLASLt's version, whose words name
// algorithms, and the kind of GPU. CudaError where there is none.
std::string PrintGemmPlans(const Device& device);
// Replaces this thread's plans by those of a text. False, and no plans, where they are of another
// GPU or version; StorageError with `path`, line and field where the text is none.
StatusOr<bool> UseGemmPlans(std::string_view text, std::string_view path, const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_OPS_GEMM_TUNING_H_
