// gemm_plan_file.cc - what of matrix products is measured, and on which steps.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/gemm_plan_file.h"

#include "dtrain/launch/internal/kernel_plan_file.h"

namespace dtrain {

StatusOr<PlanReport> PrepareGemmPlans(const GemmPlanOptions& options, const Device& device,
                                      Communicator& comm, const std::function<void()>& warm_up) {
  SetGemmTuning(options.tuning);
  if (options.tuning != GemmTuning::kMeasure || device.type == DeviceType::kCpu) {
    return PlanReport();
  }
  return internal::PreparePlans({.what = "matrix products",
                                 .library = "cuBLASLt",
                                 .count = CountGemmPlans,
                                 .print = PrintGemmPlans,
                                 .use = UseGemmPlans},
                                options.path, device, comm, [&] {
                                  const MeasureGemms measure;
                                  warm_up();
                                });
}

}  // namespace dtrain
