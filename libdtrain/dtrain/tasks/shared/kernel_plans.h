// kernel_plans.h - puts a run's section `kernels` in force, on each rank before it trains.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_
#define DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_

#include <functional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/gemm_plan_file.h"

namespace dtrain::proto {
class KernelConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Plan files go into the run's directory unless the section names another folder.
GemmPlanOptions GemmPlanOptionsOf(const proto::KernelConfig& config, const std::string& run_dir);

// Reads the plans of matrix products, and measures missing ones on what `warm_up` computes
// (launch/gemm_plan_file.h). Collective. A task's warm_up.h makes its `warm_up`.
Status PrepareKernels(const proto::KernelConfig& config, const std::string& run_dir,
                      const Device& device, Communicator& comm,
                      const std::function<void()>& warm_up);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_KERNEL_PLANS_H_
