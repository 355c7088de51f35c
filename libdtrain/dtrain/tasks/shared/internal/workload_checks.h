// workload_checks.h - what all tasks check and compute to make a Workload.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_WORKLOAD_CHECKS_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_WORKLOAD_CHECKS_H_

#include <cstdint>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/workload.h"

namespace dtrain::proto {
class RunConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The device that a run with this section would compute on. UsageError where trainer.recompute=auto
// needs to ask a GPU that this machine does not have.
StatusOr<Device> PlannedDevice(const proto::RunConfig& run, const MemoryOptions& memory);

// UsageError where a mean is not one of texts of 1 to `longest` tokens, or a deviation is not one;
// 0 is not given. `field` sets the limit: "data.max_length".
Status CheckLengths(const WorkloadOptions& options, int64_t longest, const char* field);

// UsageError where an update is so large that the bytes of its activations do not fit a number.
Status CheckBatchSize(const char* field, int64_t size);

// Forward and backward of a micro-batch of this many tokens, without recomputation.
double FlopsPerToken(const ModelCosts& costs, int64_t tokens);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_WORKLOAD_CHECKS_H_
