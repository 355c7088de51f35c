// gemm_tuning.h - chooses how matrix products on a GPU are computed: as suggested, or as measured.
// SPDX-License-Identifier: Apache-2.0
//
//   SetGemmTuning(GemmTuning::kMeasure);
//   { const MeasureGemms measure; model.Forward(...); model.Backward(...); }  // discard the
//   results WriteFileAtomically(path, PrintGemmPlans(device));
//
// cuBLASLt has many algorithms for a product of one shape. The steps after it (bias, activation,
// bias gradient) can run in the product's own kernel or in one of ours. While a MeasureGemms object
// exists, each new shape is computed in all these ways and the fastest is kept as its plan.
// Otherwise a shape without a measured plan uses the library's first suggestion.
//
// Plans belong to the thread, which means to the rank. A different plan changes the bits of a
// result, so all ranks must use the same plans (launch/gemm_plan_file.h). On CPUs nothing here
// has an effect.
#ifndef DTRAIN_OPS_GEMM_TUNING_H_
#define DTRAIN_OPS_GEMM_TUNING_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/device.h"

namespace dtrain {

enum class GemmTuning {
  kOff,        // the library's first suggestion; only the bias is fused
  kHeuristic,  // also fuses gelu's gradient, on GPUs where this is known to be faster
  kMeasure     // the measured plan; a shape without one is computed as with kHeuristic
};

// The setting of the calling thread.
GemmTuning CurrentGemmTuning();
void SetGemmTuning(GemmTuning tuning);

// While such an object exists and the setting is kMeasure, this thread measures all products that
// have no measured plan. Discard the results computed meanwhile: a measurement reads the inputs and
// writes the outputs many times.
class MeasureGemms {
 public:
  MeasureGemms();
  MeasureGemms(const MeasureGemms&) = delete;
  MeasureGemms& operator=(const MeasureGemms&) = delete;
  ~MeasureGemms();
};

// Number of measured plans of this thread.
size_t CountGemmPlans();
// This thread's plans as lines of text. The first line names what they are valid for: the version
// of cuBLASLt and the kind of GPU. Throws CudaError if there is no GPU.
std::string PrintGemmPlans(const Device& device);
// Replaces this thread's plans by those of `text`. Returns false, with no plans, if they are for
// another GPU or version. Returns StorageError, which names `path`, line and field, if the text is
// invalid.
StatusOr<bool> UseGemmPlans(std::string_view text, std::string_view path, const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_OPS_GEMM_TUNING_H_
