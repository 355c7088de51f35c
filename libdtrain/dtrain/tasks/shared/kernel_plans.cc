// kernel_plans.cc - from the section `kernels` to the plans of matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/kernel_plans.h"

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/kernels.pb.h"

namespace dtrain {

GemmPlanOptions GemmPlanOptionsOf(const proto::KernelConfig& config, const std::string& run_dir) {
  GemmPlanOptions options{.path = (config.plan_dir().empty() ? run_dir : config.plan_dir()) +
                                  "/gemm_plans.txt"};
  switch (config.gemm_tuning()) {
    case proto::KernelConfig::off:
      options.tuning = GemmTuning::kOff;
      break;
    case proto::KernelConfig::heuristic:
      options.tuning = GemmTuning::kHeuristic;
      break;
    case proto::KernelConfig::measure:
      options.tuning = GemmTuning::kMeasure;
      break;
  }
  return options;
}

Status PrepareKernels(const proto::KernelConfig& config, const std::string& run_dir,
                      const Device& device, Communicator& comm,
                      const std::function<void()>& warm_up) {
  DT_ASSIGN_OR_RETURN(const PlanReport report,
                      PrepareGemmPlans(GemmPlanOptionsOf(config, run_dir), device, comm, warm_up));
  if (comm.is_root() && report.read + report.measured > 0) {
    LogInfo(absl::StrFormat("plans of matrix products: %d measured before, %d now", report.read,
                            report.measured));
  }
  return OkStatus();
}

}  // namespace dtrain
