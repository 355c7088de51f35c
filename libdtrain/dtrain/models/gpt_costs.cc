// gpt_costs.cc - sums over the tables, the stack and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/gpt_costs.h"

#include <array>
#include <utility>

#include "dtrain/models/internal/output_loss_blocks.h"

namespace dtrain {
namespace {

using Block = ByteMeter::Block;

TransformerStackOptions GptStack(const GptOptions& options) {
  return {.layer = LayerOptionsOf(options), .num_layers = options.num_layers};
}

}  // namespace

ModelParameters CountParameters(const GptOptions& options) {
  const LayerParameters layer = CountParameters(LayerOptionsOf(options));
  return {.embeddings = (options.vocab_size + options.max_positions) * options.hidden_size,
          .attention = options.num_layers * layer.attention,
          .feed_forward = options.num_layers * layer.feed_forward,
          .layer_norm = options.num_layers * layer.layer_norm + 2 * options.hidden_size};
}

ModelFlops CountFlops(const GptOptions& options, const BertBatch& batch, Recompute recompute,
                      int recompute_every) {
  const TransformerStackOptions stack = GptStack(options);
  const auto tokens = static_cast<double>(batch.tokens);
  const double length = tokens / static_cast<double>(batch.texts);
  const double layer =
      ForwardFlops(stack.layer, {.tokens = tokens, .pairs = tokens * (length + 1.0) / 2.0});
  ModelFlops flops;
  flops.forward = stack.num_layers * layer + 2.0 * tokens *
                                                 static_cast<double>(options.hidden_size) *
                                                 static_cast<double>(options.vocab_size);
  flops.backward = 2.0 * flops.forward;
  flops.recomputed = RecomputedLayers(stack, recompute, recompute_every) * layer;
  return flops;
}

// Gpt::Forward and Backward, block by block.
int64_t PeakActivationBytes(const GptOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.tokens == 0) return 0;
  ByteMeter meter;
  const bool is_training = activations.training;
  const auto hidden = [&] {
    return meter.Take(batch.tokens * options.hidden_size, activations.compute_type);
  };
  // Inputs, targets, positions, offsets, and numbers of rows.
  const std::array<int64_t, 5> lists = {batch.tokens, batch.tokens, batch.tokens, batch.texts + 1,
                                        is_training ? batch.tokens : 0};
  const Block inputs = meter.Take(Context::UploadedElements(lists), DType::kInt32);
  StackBlocks layers(GptStack(options), batch.tokens, /*memory_tokens=*/0, activations, meter);
  std::array<Block, 3> norm;  // input and statistics of the last norm
  Block gradient;
  {
    norm[0] = hidden();
    norm[0] = layers.Forward(norm[0]);
    const Block output = hidden();
    norm[1] = meter.Take(batch.tokens, DType::kFloat32);
    norm[2] = meter.Take(batch.tokens, DType::kFloat32);
    if (!is_training) norm = {};
    if (is_training) gradient = hidden();
    internal::RunOutputLoss(batch.tokens, options.vocab_size, activations, meter);
  }
  if (!is_training) return meter.peak();
  gradient = hidden();
  norm = {};
  gradient = layers.Backward(std::move(gradient));
  return meter.peak();
}

ModelCosts CostsOf(const GptOptions& options, const BertBatch& batch) {
  const ModelParameters counts = CountParameters(options);
  return {.parameters = counts.total(),
          .trained_parameters = counts.trained(),
          .deepest = options.num_layers,
          .peak_bytes =
              [options, batch](const ActivationOptions& activations) {
                return PeakActivationBytes(options, batch, activations);
              },
          .flops =
              [options, batch](Recompute recompute, int recompute_every) {
                return CountFlops(options, batch, recompute, recompute_every);
              }};
}

}  // namespace dtrain
