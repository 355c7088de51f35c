// bert_costs.cc - sums over the encoder's embeddings and layers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_costs.h"

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain::internal {

ModelParameters CountEncoder(const BertOptions& options) {
  const LayerParameters layers = CountParameters(StackOptionsOf(options));
  const EncoderForm& form = options.family->form;
  const int64_t width = options.embedding_width();
  const int64_t rows = options.vocab_size + options.position_rows() + options.type_vocab_size;
  const int64_t projection = options.has_projection() ? (width + 1) * options.hidden_size : 0;
  const int64_t of_norms = width + (form.is_pre_norm() ? options.hidden_size : 0);
  ModelParameters parameters = {
      .embeddings = rows * width + projection,
      .attention = layers.attention,
      .feed_forward = layers.feed_forward,
      .layer_norm = layers.layer_norm + (form.has_biases ? 2 : 1) * of_norms};
  if (options.low_rank.rank > 0) {
    ParameterSet named;
    const BertEncoder encoder(Scope(named, std::string(options.family->encoder)), options);
    CountAdapters(named, parameters);
  }
  return parameters;
}

ModelFlops CountEncoderFlops(const BertOptions& options, const BertBatch& batch,
                             int64_t output_rows, double output_flops, Recompute recompute,
                             int recompute_every) {
  const TransformerStackOptions stack = StackOptionsOf(options);
  const auto tokens = static_cast<double>(batch.tokens);
  const double length = tokens / static_cast<double>(batch.texts);
  const int last = stack.num_layers - 1;
  const auto of_layer = [&](int i, bool with_attention = true) {
    const TransformerLayerOptions layer = LayerOptionsOf(stack, i);
    // Only the last layer of a post-norm stack computes some rows alone.
    const double rows =
        i == last && output_rows > 0 && !layer.pre_norm ? static_cast<double>(output_rows) : tokens;
    const double seen = SelfAttentionPairs(length, layer.window) / length;  // by a token
    return ForwardFlops(
        layer,
        {.tokens = tokens, .output_rows = rows, .pairs = with_attention ? rows * seen : 0.0});
  };
  ModelFlops flops;
  const int recomputed = RecomputedLayers(stack, recompute, recompute_every);
  for (int i = 0; i <= last; ++i) {
    flops.forward += of_layer(i);
    if (i < recomputed) flops.recomputed += of_layer(i);
  }
  flops.forward += output_flops;
  double projection = 0.0;
  if (options.has_projection()) {
    projection = 2.0 * tokens * static_cast<double>(options.embedding_width()) *
                 static_cast<double>(options.hidden_size);
  }
  flops.forward += projection;
  flops.backward = 2.0 * flops.forward;
  if (options.low_rank.rank == 0) return flops;
  double products = projection;
  for (int i = 0; i <= last; ++i) products += of_layer(i, /*with_attention=*/false);
  flops.backward = BackwardFlopsOfFrozen(flops.forward, products, output_flops,
                                         CountEncoder(options).adapters, tokens);
  return flops;
}

}  // namespace dtrain::internal
