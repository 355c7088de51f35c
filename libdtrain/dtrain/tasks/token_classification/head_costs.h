// head_costs.h - what BERT for tags costs before it runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_COSTS_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_COSTS_H_

#include <cstdint>

#include "dtrain/models/bert_costs.h"
#include "dtrain/nn/costs.h"
#include "dtrain/tasks/shared/bert_head.h"
#include "dtrain/tasks/token_classification/head.h"

namespace dtrain {

// `output` is the classifier.
ModelParameters CountParameters(const BertTokenClassifierOptions& options);

// Every piece but [CLS] and [SEP] is taken to be a word, so that the figures are upper bounds.
ModelFlops CountFlops(const BertTokenClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every = 2);
int64_t PeakActivationBytes(const BertTokenClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations);

// All of it, for planning.
ModelCosts CostsOf(const BertTokenClassifierOptions& options, const BertBatch& batch);

BertHead TokenClassifierHead(const BertTokenClassifierOptions& model);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_COSTS_H_
