// warm_up.h - training steps of pre-training, to measure kernels on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_WARM_UP_H_
#define DTRAIN_TASKS_PRETRAINING_WARM_UP_H_

#include <functional>

#include "dtrain/nn/context.h"
#include "dtrain/tasks/pretraining/head_costs.h"

namespace dtrain {

// Steps of the sizes that micro-batches planned like `batch` have (tasks/shared/kernel_plans.h).
// Gradients are zero afterwards. The model outlives the result, and nobody listens to its
// parameters yet.
std::function<void()> WarmUpSteps(BertPretraining& model, const MaskedBertBatch& batch,
                                  const Device& device, const ContextOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_WARM_UP_H_
