// head_costs.cc - sums over the encoder and the classifier of words.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/head_costs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain {
namespace {

using Block = ByteMeter::Block;

int64_t WordsOf(const BertBatch& batch) {
  return std::max<int64_t>(batch.tokens - 2 * batch.texts, batch.texts);
}

}  // namespace

ModelParameters CountParameters(const BertTokenClassifierOptions& options) {
  ModelParameters parameters = internal::CountEncoder(options.bert);
  parameters.output = options.num_tags * (options.bert.hidden_size + 1) +
                      internal::CountTokenTransform(options.bert);
  return parameters;
}

ModelFlops CountFlops(const BertTokenClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every) {
  const int64_t words = WordsOf(batch);
  const double output = 2.0 * static_cast<double>(words) *
                        static_cast<double>(options.bert.hidden_size * options.num_tags +
                                            internal::TokenTransformProduct(options.bert));
  return internal::CountEncoderFlops(options.bert, batch, words, output, recompute,
                                     recompute_every);
}

// BertTokenClassifier::Forward and Backward, block by block.
int64_t PeakActivationBytes(const BertTokenClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  const int64_t words = WordsOf(batch);
  const bool is_training = activations.training;
  ByteMeter meter;
  internal::EncoderBlocks encoder(options.bert, batch, activations, meter, words);
  // Rows and offsets of words, their numbers, their tags.
  const std::array<int64_t, 4> own = {words, batch.texts + 1, is_training ? words : 0, words};
  const Block inputs = internal::TakeInputs(batch, own, is_training, meter);
  const auto of_words = [&](int64_t columns, DType type) {
    return meter.Take(words * columns, type);
  };
  const int64_t hidden_size = options.bert.hidden_size;
  std::optional<internal::HeadTransformBlocks> transform;
  if (options.bert.family->transforms_tokens) {
    transform.emplace(ClassifierTransformOf(options.bert), words, activations, meter);
  }
  Block hidden = encoder.Forward();
  if (transform) hidden = transform->Forward(hidden);
  if (is_training) hidden = of_words(hidden_size, activations.compute_type);  // after dropout
  Block d_logits;
  {
    const Block logits = of_words(options.num_tags, DType::kFloat32);
    const std::array<Block, 2> losses = {of_words(1, DType::kFloat32),
                                         of_words(1, DType::kFloat32)};
    if (is_training) d_logits = of_words(options.num_tags, DType::kFloat32);
    const Block scale = meter.Take(1, DType::kFloat32);
    const Block sum = meter.Take(1, DType::kFloat64);
  }
  if (!is_training) return meter.peak();
  if (activations.compute_type != DType::kFloat32) {
    d_logits = of_words(options.num_tags, activations.compute_type);
  }
  Block d_hidden = of_words(hidden_size, activations.compute_type);
  hidden = nullptr;
  if (transform) d_hidden = transform->Backward();
  encoder.Backward(std::move(d_hidden));
  return meter.peak();
}

ModelCosts CostsOf(const BertTokenClassifierOptions& options, const BertBatch& batch) {
  return internal::CostsOfModel(options, batch);
}

BertHead TokenClassifierHead(const BertTokenClassifierOptions& model) {
  BertHead head{.row = "sentence", .encoder = model.bert, .parameters = CountParameters(model)};
  AddLinear(model.num_tags, model.bert.hidden_size, head.gradients);
  AddTokenTransform(model.bert, head.gradients);
  head.costs = [model](const BertBatch& batch) { return CostsOf(model, batch); };
  return head;
}

}  // namespace dtrain
