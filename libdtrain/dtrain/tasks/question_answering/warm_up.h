// warm_up.h - training steps of a model that answers questions, to measure kernels on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_WARM_UP_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_WARM_UP_H_

#include <functional>

#include "dtrain/models/bert_costs.h"
#include "dtrain/nn/context.h"

namespace dtrain {

class BertQuestionAnswering;

// Steps of the sizes that micro-batches planned like `batch` have (tasks/shared/kernel_plans.h).
// Gradients are zero afterwards. The model outlives the result, and nobody listens to its
// parameters yet.
std::function<void()> WarmUpSteps(BertQuestionAnswering& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_WARM_UP_H_
