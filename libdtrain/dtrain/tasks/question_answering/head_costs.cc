// head_costs.cc - sums over the encoder and the two scores of each token.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/head_costs.h"

#include <array>
#include <optional>
#include <utility>

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain {
namespace {

using internal::EncoderBlocks;
using Block = ByteMeter::Block;

// BertQuestionAnswering::Forward and Backward.
int64_t PeakOfQuestionAnswering(const BertOptions& options, const BertBatch& batch,
                                const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  ByteMeter meter;
  EncoderBlocks encoder(options, batch, activations, meter);
  std::optional<internal::HeadTransformBlocks> transform;
  if (options.family->transforms_tokens) {
    transform.emplace(ClassifierTransformOf(options), batch.tokens, activations, meter);
  }
  const Block inputs = internal::TakeInputs(batch, std::array<int64_t, 1>{2 * batch.texts},
                                            activations.training, meter);
  Block hidden = encoder.Forward();
  if (transform) hidden = transform->Forward(hidden);
  Block d_logits = meter.Take(2 * batch.tokens, DType::kFloat32);
  {
    const Block loss = meter.Take(2 * batch.texts, DType::kFloat32);
    const Block scale = meter.Take(1, DType::kFloat32);
    const Block sum = meter.Take(1, DType::kFloat64);
  }
  if (!activations.training) return meter.peak();
  if (activations.compute_type != DType::kFloat32) {
    d_logits = meter.Take(2 * batch.tokens, activations.compute_type);
  }
  Block d_hidden = encoder.OfTokens();
  hidden = nullptr;
  if (transform) d_hidden = transform->Backward();
  encoder.Backward(std::move(d_hidden));
  return meter.peak();
}

}  // namespace

ModelParameters CountQuestionAnswering(const BertOptions& options) {
  ModelParameters parameters = internal::CountEncoder(options);
  parameters.output = 2 * (options.hidden_size + 1) + internal::CountTokenTransform(options);
  return parameters;
}

ModelCosts CostsOfQuestionAnswering(const BertOptions& options, const BertBatch& batch) {
  const ModelParameters counts = CountQuestionAnswering(options);
  return {.parameters = counts.total(),
          .trained_parameters = counts.trained(),
          .deepest = options.num_layers,
          .peak_bytes =
              [options, batch](const ActivationOptions& activations) {
                return PeakOfQuestionAnswering(options, batch, activations);
              },
          .flops =
              [options, batch](Recompute recompute, int recompute_every) {
                const double output = 2.0 * static_cast<double>(batch.tokens) *
                                      static_cast<double>(2 * options.hidden_size +
                                                          internal::TokenTransformProduct(options));
                return internal::CountEncoderFlops(options, batch, /*output_rows=*/0, output,
                                                   recompute, recompute_every);
              }};
}

BertHead QuestionAnsweringHead(const BertOptions& model) {
  BertHead head{.row = "window", .encoder = model, .parameters = CountQuestionAnswering(model)};
  AddLinear(2, model.hidden_size, head.gradients);
  AddTokenTransform(model, head.gradients);
  head.costs = [model](const BertBatch& batch) { return CostsOfQuestionAnswering(model, batch); };
  return head;
}

}  // namespace dtrain
