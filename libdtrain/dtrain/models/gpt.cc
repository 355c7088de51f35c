// gpt.cc - the sum of two tables, causal layers and a norm, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/gpt.h"

#include <array>

#include "dtrain/models/internal/embedding_table.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/ops/embedding.h"

namespace dtrain {
TransformerLayerOptions LayerOptionsOf(const GptOptions& options) {
  return {.hidden_size = options.hidden_size,
          .ffn_size = options.ffn_size,
          .num_heads = options.num_heads,
          .activation = options.activation,
          .pre_norm = true,
          .layer_norm_epsilon = options.layer_norm_epsilon,
          .dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .causal = true,
          .names = {.self_attention = "attn",
                    .attention = {.query = "q", .key = "k", .value = "v", .output = "c_proj"},
                    .attention_norm = "ln_1",
                    .fc1 = "mlp.c_fc",
                    .fc2 = "mlp.c_proj",
                    .final_norm = "ln_2"},
          .weights = Initializer::Normal(options.initializer_range)};
}

Gpt::Gpt(const GptOptions& options)
    : options_(options),
      words_(internal::AddEmbeddingTable(scope_, "wte", options.vocab_size, options.hidden_size,
                                         options.initializer_range)),
      positions_(internal::AddEmbeddingTable(scope_, "wpe", options.max_positions,
                                             options.hidden_size, options.initializer_range)),
      dropout_site_(scope_.NewSite()),
      layers_(
          scope_,
          {.layer = LayerOptionsOf(options), .num_layers = options.num_layers, .layers_name = "h"}),
      final_norm_(scope_, "ln_f", options.hidden_size, options.layer_norm_epsilon),
      output_(words_, {}) {}

void Gpt::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

GptInputs Gpt::Upload(const GptBatch& batch, Context& ctx) const {
  DT_CHECK_LE(batch.sequences.max_length(), options_.max_positions)
      << "a sequence is longer than the table of positions (max_positions)";
  DT_CHECK_EQ(static_cast<int64_t>(batch.input_ids.size()), batch.sequences.tokens());
  DT_CHECK_EQ(static_cast<int64_t>(batch.target_ids.size()), batch.sequences.tokens());
  const std::vector<int32_t> positions = PositionsOf(batch.sequences);
  const std::vector<int32_t> numbers = batch.sequences.NumberRows();
  const std::array<HostList, 5> lists = {batch.input_ids, batch.target_ids, positions,
                                         batch.sequences.offsets(), numbers};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  GptInputs inputs{.input_ids = on_device[0],
                   .target_ids = on_device[1],
                   .position_ids = on_device[2],
                   .sequences = batch.sequences};
  inputs.sequences.set_device_offsets(on_device[3]);
  if (on_device[4].elements() > 0) inputs.sequences.set_row_numbers(on_device[4]);
  return inputs;
}

Tensor Gpt::Embed(const Tensor& ids, const Tensor& position_ids, const Tensor& row_numbers,
                  Context& ctx) const {
  Tensor x = ctx.Empty({ids.dim(0), options_.hidden_size});
  EmbeddingForward(ids, position_ids, words_.value(), positions_.value(),
                   {.dropout = ctx.MakeDropout(options_.dropout, dropout_site_, row_numbers)}, x,
                   ctx.stream());
  return x;
}

Tensor Gpt::Hidden(const GptInputs& inputs, Context& ctx) {
  const Sequences& sequences = inputs.sequences;
  Tensor x = Embed(inputs.input_ids, inputs.position_ids, sequences.row_numbers(), ctx);
  x = layers_.Forward(x, {sequences, Tensor(), sequences}, ctx);
  return final_norm_.Forward(x, ctx);
}

LossSums Gpt::Forward(const GptInputs& inputs, Context& ctx, std::vector<float>* nlls) {
  if (inputs.sequences.tokens() == 0) return {};
  const Tensor hidden = Hidden(inputs, ctx);
  if (ctx.training()) inputs_ = inputs;
  Tensor no_predictions;
  if (nlls == nullptr) return output_.Forward(hidden, inputs.target_ids, no_predictions, ctx);
  Tensor nll;
  const LossSums sums = output_.Forward(hidden, inputs.target_ids, no_predictions, ctx, &nll);
  *nlls = Download<float>(nll, ctx.stream());
  return sums;
}

void Gpt::Backward(Context& ctx) {
  if (!inputs_.input_ids) {  // an empty micro-batch adds nothing, but its gradients are ready too
    for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
    return;
  }
  const Sequences& sequences = inputs_.sequences;
  Tensor gradient = output_.Backward();
  gradient = final_norm_.Backward(gradient, Tensor(), ctx);
  final_norm_.Release();
  Tensor none;
  gradient = layers_.Backward(std::move(gradient), {sequences, Tensor(), sequences}, none, ctx);
  BackwardEmbeddings(gradient, ctx);
  inputs_ = GptInputs();  // and its memory on the device
}

void Gpt::BackwardEmbeddings(const Tensor& dy, Context& ctx) {
  const Tensor& numbers = inputs_.sequences.row_numbers();
  EmbeddingBackward(dy, inputs_.input_ids, inputs_.position_ids,
                    {.dropout = ctx.MakeDropout(options_.dropout, dropout_site_, numbers)},
                    words_.gradient(), positions_.gradient(), ctx.stream());
  positions_.GradientReady();
  words_.GradientReady();
}

Tensor Gpt::Logits(const GptBatch& batch, Context& ctx) {
  DT_CHECK(!ctx.training());
  return output_.Logits(Hidden(Upload(batch, ctx), ctx), ctx);
}

GptCache Gpt::StartDecoding(int64_t slots, Context& ctx) {
  GptCache cache{.layers = std::vector<LayerCache>(layers_.size())};
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_.layer(i).StartDecoding(Tensor(), slots, cache.layers[i], ctx);
  }
  return cache;
}

Tensor Gpt::Step(std::span<const int32_t> ids, int32_t position, const StepInputs& inputs,
                 GptCache& cache, Context& ctx) {
  DT_CHECK(!ctx.training());
  DT_CHECK_LT(position, options_.max_positions);
  const Tensor positions = ctx.Upload(std::vector<int32_t>(ids.size(), position));
  Tensor x = Embed(ctx.Upload(ids), positions, Tensor(), ctx);
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = layers_.layer(i).ForwardStep(x, inputs, cache.layers[i], ctx);
  }
  return output_.Logits(final_norm_.Forward(x, ctx), ctx);
}

}  // namespace dtrain
