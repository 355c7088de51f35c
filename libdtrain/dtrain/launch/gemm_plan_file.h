// gemm_plan_file.h - measured plans of matrix products: one rank measures, a file keeps, all use.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_GEMM_PLAN_FILE_H_
#define DTRAIN_LAUNCH_GEMM_PLAN_FILE_H_

#include <cstddef>
#include <functional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/kernel_plan_report.h"
#include "dtrain/ops/gemm_tuning.h"

namespace dtrain {

struct GemmPlanOptions {
  GemmTuning tuning = GemmTuning::kHeuristic;
  std::string path = {};  // of the plan file, read and written on the root rank
};

// Sets how this rank's products are computed. With kMeasure on a GPU all ranks take the plans of
// the root rank: those of the file, and for what `warm_up` multiplies beyond them new ones, which
// go into the file. `warm_up` runs on the root rank alone and must not communicate; its results are
// waste. A file that is damaged, or of another GPU or cuBLASLt, is measured anew; a rank whose GPU
// or library differs from the root's says so and goes without. Collective. StorageError on all
// ranks where the file cannot be written.
StatusOr<PlanReport> PrepareGemmPlans(const GemmPlanOptions& options, const Device& device,
                                      Communicator& comm, const std::function<void()>& warm_up);

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_GEMM_PLAN_FILE_H_
