// head_costs.h - what BERT for question answering costs before it runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_COSTS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_COSTS_H_

#include "dtrain/models/bert_costs.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/costs.h"
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

// `output` is the layer that scores where answers start and end.
ModelParameters CountQuestionAnswering(const BertOptions& options);

// Parameters, operations and activations, for planning. The batch's texts are windows of contexts
// with their questions.
ModelCosts CostsOfQuestionAnswering(const BertOptions& options, const BertBatch& batch);

BertHead QuestionAnsweringHead(const BertOptions& model);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_COSTS_H_
