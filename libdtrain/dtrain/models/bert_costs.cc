// bert_costs.cc - sums over the encoder's embeddings and layers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_costs.h"

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain::internal {

ModelParameters CountEncoder(const BertOptions& options) {
  const LayerParameters layer = CountParameters(LayerOptionsOf(options));
  const int64_t width = options.embedding_width();
  const int64_t rows = options.vocab_size + options.position_offset + options.max_positions +
                       options.type_vocab_size;
  const int64_t projection = options.has_projection() ? (width + 1) * options.hidden_size : 0;
  return {.embeddings = rows * width + projection,
          .attention = options.num_layers * layer.attention,
          .feed_forward = options.num_layers * layer.feed_forward,
          .layer_norm = options.num_layers * layer.layer_norm + 2 * width};
}

ModelFlops CountEncoderFlops(const BertOptions& options, const BertBatch& batch,
                             int64_t output_rows, double output_flops, Recompute recompute,
                             int recompute_every) {
  const TransformerStackOptions stack = StackOf(options);
  const auto tokens = static_cast<double>(batch.tokens);
  const auto texts = static_cast<double>(batch.texts);
  const double layer =
      ForwardFlops(stack.layer, {.tokens = tokens, .pairs = tokens * tokens / texts});
  const auto rows = static_cast<double>(output_rows);
  const double last =
      output_rows > 0
          ? ForwardFlops(stack.layer,
                         {.tokens = tokens, .output_rows = rows, .pairs = rows * tokens / texts})
          : layer;
  const int recomputed = RecomputedLayers(stack, recompute, recompute_every);
  ModelFlops flops;
  flops.forward = (stack.num_layers - 1) * layer + last + output_flops;
  if (options.has_projection()) {
    flops.forward += 2.0 * tokens * static_cast<double>(options.embedding_width()) *
                     static_cast<double>(options.hidden_size);
  }
  flops.backward = 2.0 * flops.forward;
  flops.recomputed = recomputed * layer;
  if (recomputed == stack.num_layers) flops.recomputed += last - layer;
  return flops;
}

}  // namespace dtrain::internal
