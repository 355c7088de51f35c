// bert_golden.h - the classifiers on BERT and its relatives of tests/golden/, and their batches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_
#define DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/tasks/classification/head.h"
#include "testing/catch.h"
#include "testing/golden.h"

namespace dtrain::testing {

// A model of tests/golden/ and the options it was made with.
struct GoldenBert {
  std::string name;
  BertClassifierOptions options;
};

// The small encoders of the other families: relatives() of make_bert_goldens.py.
inline std::vector<BertOptions> GoldenRelatives() {
  const BertOptions base = {.vocab_size = 67,
                            .hidden_size = 16,
                            .num_layers = 1,
                            .num_heads = 2,
                            .ffn_size = 24,
                            .max_positions = 32,
                            .dropout = 0.0f,
                            .attention_dropout = 0.0f};
  std::vector<BertOptions> relatives(4, base);
  relatives[0].family = &DistilBertFamily();
  relatives[0].type_vocab_size = 0;
  relatives[1].family = &ElectraFamily();
  relatives[1].embedding_size = 10;
  relatives[2].family = &RobertaFamily();
  relatives[2].type_vocab_size = 1;
  relatives[2].position_offset = 2;
  relatives[2].layer_norm_epsilon = 1e-5f;
  relatives[3].family = &ModernBertFamily();
  relatives[3].type_vocab_size = 0;
  relatives[3].layer_norm_epsilon = 1e-5f;
  relatives[3].num_layers = 3;
  relatives[3].local_attention = 4;
  relatives[3].whole_every = 2;
  return relatives;
}

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
  for (const BertOptions& relative : GoldenRelatives()) {
    models.push_back({std::string(relative.family->name), {.bert = relative, .num_labels = 3}});
  }
  models.push_back(models.back());
  models.back().name = "modernbert_mean";
  models.back().options.mean_pooling = true;
  for (GoldenBert& model : models) {
    model.options.classifier_dropout = 0.0f;
    const Golden golden(model.name);
    if (golden.Has("label_weights")) model.options.label_weights = golden.Floats("label_weights");
  }
  return models;
}

// `types` false: every token has type 0, as RoBERTa's do.
inline ClassificationBatch BatchOf(const Golden& golden, bool types = true) {
  ClassificationBatch batch;
  batch.token_ids = golden.Ints("token.ids");
  batch.type_ids = golden.Ints("type.ids");
  if (!types) std::ranges::fill(batch.type_ids, 0);
  batch.sequences = Sequences(golden.Ints("offsets"));
  batch.labels = golden.Floats("targets");
  batch.weights = golden.Floats("weights");
  for (int64_t s = 0; s < batch.sequences.count(); ++s) {
    for (int32_t t = 0; t < batch.sequences.length(s); ++t) batch.position_ids.push_back(t);
    batch.rows.push_back(s);
  }
  return batch;
}

// The gradient of a key's bias is zero but for rounding: a constant added to all keys leaves the
// softmax as it is.
inline bool IsKeyBias(const std::string& name) {
  return name.ends_with("self.key.bias") || name.ends_with("k_lin.bias");
}

// The model has exactly the parameters that the golden file has gradients of.
inline void CheckSameNames(const Golden& golden, const ParameterSet& parameters) {
  size_t expected = 0;
  for (const std::string& name : golden.Names()) expected += name.starts_with("grad.") ? 1 : 0;
  CHECK(parameters.in_backward_order().size() == expected);
  for (const Parameter* parameter : parameters.in_backward_order()) {
    INFO(parameter->name());
    CHECK(golden.Has("grad." + parameter->name()));
  }
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_BERT_GOLDEN_H_
