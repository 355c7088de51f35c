// head_costs.h - what a BERT classifier costs before it runs: parameters, operations, activations.
// SPDX-License-Identifier: Apache-2.0
//
//   const BertClassifierOptions options{.bert = {.num_layers = 12}, .num_labels = 2};
//   const BertBatch batch{.tokens = 4096, .texts = 32};
//   RecomputePlan plan = PlanRecompute(CostsOf(options, batch), {}, /*budget=*/int64_t{8} << 30);
//
// Nothing is computed or allocated; layers are counted in nn/costs.h.
#ifndef DTRAIN_TASKS_CLASSIFICATION_HEAD_COSTS_H_
#define DTRAIN_TASKS_CLASSIFICATION_HEAD_COSTS_H_

#include <cstdint>

#include "dtrain/models/bert_costs.h"
#include "dtrain/nn/costs.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

// `output` is the pooler and the classifier.
ModelParameters CountParameters(const BertClassifierOptions& options);

// Embeddings, norms and activations are not counted.
ModelFlops CountFlops(const BertClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const BertClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations);

// All of these, for planning.
ModelCosts CostsOf(const BertClassifierOptions& options, const BertBatch& batch);

BertHead ClassifierHead(const BertClassifierOptions& model);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_HEAD_COSTS_H_
