// head_costs.h - what pre-training BERT costs before it runs, as models/bert_costs.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_
#define DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_

#include <cstdint>

#include "dtrain/models/bert_costs.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/pretraining/token_masking.h"
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

// A micro-batch of which so many tokens are masked, none of them a text's first.
struct MaskedBertBatch {
  BertBatch text;
  int64_t masked = 614;  // 15 %
};

// `output` is all but the embeddings and the stack; the projection to the vocabulary is the
// embeddings' but for its bias.
ModelParameters CountParameters(const BertPretrainingOptions& options);

// Embeddings, norms and activations are not counted.
ModelFlops CountFlops(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                      Recompute recompute, int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                            const ActivationOptions& activations);

// All of it, for planning.
ModelCosts CostsOf(const BertPretrainingOptions& options, const MaskedBertBatch& batch);

BertHead PretrainingHead(const BertPretrainingOptions& model, const MaskingOptions& masking);

// A batch with as many masked tokens as there are on average.
MaskedBertBatch MaskedBatchOf(const BertBatch& text, const MaskingOptions& masking);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_HEAD_COSTS_H_
