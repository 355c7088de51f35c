// gpt_costs.h - the costs of a Gpt: parameters, floating-point operations, activations.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_GPT_COSTS_H_
#define DTRAIN_MODELS_GPT_COSTS_H_

#include <cstdint>

#include "dtrain/models/bert_costs.h"
#include "dtrain/models/gpt.h"
#include "dtrain/nn/costs.h"

namespace dtrain {

ModelParameters CountParameters(const GptOptions& options);

// Counts products only. Attention counts only the tokens that a token sees.
ModelFlops CountFlops(const GptOptions& options, const BertBatch& batch, Recompute recompute,
                      int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const GptOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations);

// All costs, for planning.
ModelCosts CostsOf(const GptOptions& options, const BertBatch& batch);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_GPT_COSTS_H_
