// head_costs.h - the costs of pre-training BERT before it runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_
#define DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_

#include <cstdint>

#include "dtrain/models/bert_costs.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/pretraining/token_masking.h"
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

// A micro-batch with `masked` masked tokens, none of which is a text's first token.
struct MaskedBertBatch {
  BertBatch text;
  int64_t masked = 614;  // 15 % of the tokens
};

// The member `output` counts everything except the embeddings and the stack. The projection to the
// vocabulary adds only its bias there, because its weight belongs to the embeddings.
ModelParameters CountParameters(const BertPretrainingOptions& options);

// Counts products only, not embeddings, norms and activations.
ModelFlops CountFlops(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                      Recompute recompute, int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                            const ActivationOptions& activations);

// All costs, for planning.
ModelCosts CostsOf(const BertPretrainingOptions& options, const MaskedBertBatch& batch);

BertHead PretrainingHead(const BertPretrainingOptions& model, const MaskingOptions& masking);

// A batch with as many masked tokens as there are on average.
MaskedBertBatch MaskedBatchOf(const BertBatch& text, const MaskingOptions& masking);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_
