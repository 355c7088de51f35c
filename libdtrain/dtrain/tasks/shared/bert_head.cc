// bert_head.cc - the heads of bert_classify, bert_squad and bert_pretrain.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/bert_head.h"

#include <algorithm>
#include <cmath>

#include "dtrain/tasks/classification/head_costs.h"
#include "dtrain/tasks/question_answering/head_costs.h"

namespace dtrain {
namespace {

HeadGradient Vector(int64_t elements) { return {.columns = elements}; }

HeadGradient Matrix(int64_t rows, int64_t columns) {
  return {.rows = rows, .columns = columns, .product = static_cast<double>(rows * columns)};
}

void AddLinear(int64_t outputs, int64_t inputs, std::vector<HeadGradient>& gradients) {
  gradients.push_back(Matrix(outputs, inputs));
  gradients.push_back(Vector(outputs));
}

}  // namespace

BertHead ClassifierHead(const BertClassifierOptions& model) {
  const int64_t hidden = model.bert.hidden_size;
  BertHead head{.program = "bert_classify",
                .row = "text",
                .encoder = model.bert,
                .parameters = CountParameters(model)};
  AddLinear(model.num_labels, hidden, head.gradients);
  AddLinear(hidden, hidden, head.gradients);
  head.costs = [model](const BertBatch& batch) { return CostsOf(model, batch); };
  return head;
}

BertHead QuestionAnsweringHead(const BertOptions& model) {
  BertHead head{.program = "bert_squad",
                .row = "window",
                .encoder = model,
                .parameters = CountQuestionAnswering(model)};
  AddLinear(2, model.hidden_size, head.gradients);
  head.costs = [model](const BertBatch& batch) { return CostsOfQuestionAnswering(model, batch); };
  return head;
}

BertHead PretrainingHead(const BertPretrainingOptions& model, const MaskingOptions& masking) {
  const int64_t hidden = model.bert.hidden_size;
  const int64_t vocabulary = model.bert.vocab_size;
  BertHead head{.program = "bert_pretrain",
                .row = "example",
                .encoder = model.bert,
                .parameters = CountParameters(model)};
  // The projection's matrix is the word table, whose gradient the embeddings complete; of the
  // tokens only the masked ones go through it.
  head.gradients.push_back(
      {.columns = vocabulary,
       .product = masking.share * static_cast<double>(vocabulary) * static_cast<double>(hidden)});
  if (model.next_sentence) {
    AddLinear(2, hidden, head.gradients);
    AddLinear(hidden, hidden, head.gradients);
  }
  head.gradients.push_back(Vector(hidden));  // the transform's norm
  head.gradients.push_back(Vector(hidden));
  AddLinear(hidden, hidden, head.gradients);
  head.costs = [model, masking](const BertBatch& batch) {
    return CostsOf(model, MaskedBatchOf(batch, masking));
  };
  return head;
}

MaskedBertBatch MaskedBatchOf(const BertBatch& text, const MaskingOptions& masking) {
  const int64_t masked = std::llround(static_cast<double>(text.tokens) * masking.share);
  return {.text = text,
          .masked = std::clamp(masked, text.texts, text.texts * masking.max_predictions)};
}

}  // namespace dtrain
