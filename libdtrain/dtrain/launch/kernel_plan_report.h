// kernel_plan_report.h - how many plans a run read from its file, and how many it measured.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_KERNEL_PLAN_REPORT_H_
#define DTRAIN_LAUNCH_KERNEL_PLAN_REPORT_H_

#include <cstddef>

namespace dtrain {

struct PlanReport {
  size_t read = 0;      // plans of the file
  size_t measured = 0;  // and those it did not have
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_KERNEL_PLAN_REPORT_H_
