// bert_head.h - what a program of BERT puts on its encoder, as memory and time are planned for it.
// SPDX-License-Identifier: Apache-2.0
//
// A run plans with the head of its task's model, `dtrain estimate` and `dtrain plan` with that of a
// configuration. The formulas are those of each task's
// head_costs.h.
#ifndef DTRAIN_TASKS_SHARED_BERT_HEAD_H_
#define DTRAIN_TASKS_SHARED_BERT_HEAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/models/bert_costs.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/pretraining/head_costs.h"
#include "dtrain/tasks/pretraining/token_masking.h"

namespace dtrain {

// What backward completes in a head: a gradient, the product that it comes of, or both.
struct HeadGradient {
  int64_t rows = 1;  // of a matrix, [rows, columns]; 1: a vector, which travels whole
  int64_t columns = 0;
  double product =
      0.0;  // elements of the matrix that backward multiplies by: its share of the time
};

struct BertHead {
  std::string program;  // "bert_squad"
  std::string row;      // of its batches: "text", "window", "example"
  BertOptions encoder = {};
  ModelParameters parameters = {};           // of the whole model
  std::vector<HeadGradient> gradients = {};  // in the order in which backward completes them
  std::function<ModelCosts(const BertBatch&)> costs = nullptr;  // of the whole model
};

BertHead ClassifierHead(const BertClassifierOptions& model);
BertHead QuestionAnsweringHead(const BertOptions& model);
BertHead PretrainingHead(const BertPretrainingOptions& model, const MaskingOptions& masking);

// With as many masked tokens as there are on average.
MaskedBertBatch MaskedBatchOf(const BertBatch& text, const MaskingOptions& masking);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_HEAD_H_
