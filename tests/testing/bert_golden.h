// bert_golden.h - the BERT classifiers of tests/golden/ and their batches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_
#define DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_

#include <numeric>
#include <string>
#include <vector>

#include "dtrain/tasks/classification/head.h"
#include "testing/golden.h"

namespace dtrain::testing {

// A model of tests/golden/ and the options it was made with.
struct GoldenBert {
  std::string name;
  BertClassifierOptions options;
};

inline std::vector<GoldenBert> GoldenBerts() {
  const BertOptions base = {.vocab_size = 67,
                            .hidden_size = 16,
                            .num_layers = 2,
                            .num_heads = 2,
                            .ffn_size = 24,
                            .max_positions = 32,
                            .dropout = 0.0f,
                            .attention_dropout = 0.0f};
  std::vector<GoldenBert> models = {{"bert_classes", {.bert = base, .num_labels = 3}},
                                    {"bert_labels", {.bert = base, .num_labels = 5}},
                                    {"bert_value", {.bert = base, .num_labels = 1}}};
  BertOptions& classes = models[0].options.bert;
  classes.hidden_size = 24;
  classes.num_heads = 3;
  classes.ffn_size = 40;
  models[1].options.loss = ClassificationLossKind::kSigmoid;
  models[1].options.bert.activation = Activation::kGeluTanh;
  models[2].options.loss = ClassificationLossKind::kMeanSquared;
  models[2].options.bert.num_layers = 1;
  for (GoldenBert& model : models) {
    model.options.classifier_dropout = 0.0f;
    const Golden golden(model.name);
    if (golden.Has("label_weights")) model.options.label_weights = golden.Floats("label_weights");
  }
  return models;
}

inline ClassificationBatch BatchOf(const Golden& golden) {
  ClassificationBatch batch;
  batch.token_ids = golden.Ints("token.ids");
  batch.type_ids = golden.Ints("type.ids");
  batch.sequences = Sequences(golden.Ints("offsets"));
  batch.labels = golden.Floats("targets");
  batch.weights = golden.Floats("weights");
  for (int64_t s = 0; s < batch.sequences.count(); ++s) {
    for (int32_t t = 0; t < batch.sequences.length(s); ++t) batch.position_ids.push_back(t);
    batch.rows.push_back(s);
  }
  return batch;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_
