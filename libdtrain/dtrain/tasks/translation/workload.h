// workload.h - what a translation run computes and keeps (tasks/shared/workload.h).
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_WORKLOAD_H_
#define DTRAIN_TASKS_TRANSLATION_WORKLOAD_H_

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/workload.h"

namespace dtrain::proto {
class NmtConfig;
}  // namespace dtrain::proto

namespace dtrain {

// UsageError where the configuration is not valid, a length is not one of its sentences, or
// recompute=auto needs a GPU that is not there.
StatusOr<Workload> TranslationWorkload(const proto::NmtConfig& config,
                                       const WorkloadOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_WORKLOAD_H_
