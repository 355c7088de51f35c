// warm_up.h - training steps of a language model, to measure kernels on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_WARM_UP_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_WARM_UP_H_

#include <functional>

#include "dtrain/models/bert_costs.h"
#include "dtrain/nn/context.h"

namespace dtrain {

class Gpt;

// Steps of the sizes that micro-batches planned like `batch` have (tasks/shared/kernel_plans.h).
// Gradients are zero afterwards. The model outlives the result, and nobody listens to its
// parameters yet.
std::function<void()> WarmUpSteps(Gpt& model, const BertBatch& batch, const Device& device,
                                  const ContextOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_WARM_UP_H_
