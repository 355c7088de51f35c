// evaluation.h - measures a language model on windows, all ranks sharing the work.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_EVALUATION_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_EVALUATION_H_

#include <cstdint>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/models/gpt.h"
#include "dtrain/models/gpt_sampling.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/language_model/windows.h"
#include "dtrain/train/task.h"

namespace dtrain {

// The metrics of the windows (tasks/language_model/metrics.h), the same on all ranks and, to the
// last bit, for any number of them. batch_tokens: evaluated at once, on a rank. Collective.
// The result has the loss of each window, too.
EvaluationResult EvaluateWindows(Gpt& model, const TextWindows& windows, int64_t batch_tokens,
                                 Communicator& comm, Context& ctx);
// The mean loss of these windows.
double LossOfWindows(Gpt& model, const TextWindows& windows, const std::vector<uint32_t>& rows,
                     int64_t batch_tokens, Communicator& comm, Context& ctx);

// The beginning of the first window, what follows it, and what the model makes follow.
EvaluationSample SampleOf(Gpt& model, const TextWindows& windows, const SamplingOptions& options,
                          Context& ctx);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_EVALUATION_H_
