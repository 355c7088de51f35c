// optimizer_config.h - checks the configuration's section `optimizer` and turns it into options.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_OPTIMIZER_CONFIG_H_
#define DTRAIN_LAUNCH_INTERNAL_OPTIMIZER_CONFIG_H_

#include <cstdint>

#include "dtrain/base/status.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/lr_schedule.h"

namespace dtrain::proto {
class OptimizerConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// The length of a run whose epochs are not known yet.
inline constexpr int64_t kUnknownUpdates = int64_t{1} << 40;

// Checks the learning-rate schedule. `updates` is the length of the run; it is the schedule's
// length, too, unless optimizer.total_steps is set. UsageError names the fields.
Status ValidateSchedule(const proto::OptimizerConfig& optimizer, int64_t updates,
                        bool has_max_time);

// Checks the optimizer's type against its weight decay.
Status ValidateOptimizer(const proto::OptimizerConfig& optimizer);

AdamConfig AdamConfigOf(const proto::OptimizerConfig& config);

// max_steps: the length of the schedule unless optimizer.total_steps is set. hidden_size: a factor
// of the schedule `transformer`.
LrScheduleOptions LearningRateOf(const proto::OptimizerConfig& config, int64_t max_steps,
                                 int64_t hidden_size);

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_OPTIMIZER_CONFIG_H_
