// warm_up.h - training steps of a translation model, to measure kernels on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_WARM_UP_H_
#define DTRAIN_TASKS_TRANSLATION_WARM_UP_H_

#include <functional>

#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/nn/context.h"

namespace dtrain {

class Seq2SeqTransformer;

// Steps of the sizes that micro-batches planned like `batch` have (tasks/shared/kernel_plans.h).
// Gradients are zero afterwards. The model outlives the result, and nobody listens to its
// parameters yet.
std::function<void()> WarmUpSteps(Seq2SeqTransformer& model, const Seq2SeqBatch& batch,
                                  const Device& device, const ContextOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_WARM_UP_H_
