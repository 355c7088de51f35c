// bert_encoder.cc - the sums of three tables, the stack and the pooler, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_encoder.h"

#include <utility>

#include "dtrain/models/internal/embedding_table.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/embedding.h"

namespace dtrain {
TransformerLayerOptions LayerOptionsOf(const BertOptions& options) {
  return {.hidden_size = options.hidden_size,
          .ffn_size = options.ffn_size,
          .num_heads = options.num_heads,
          .activation = options.activation,
          .layer_norm_epsilon = options.layer_norm_epsilon,
          .dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .names = {.self_attention = "attention",
                    .attention = {.query = "self.query",
                                  .key = "self.key",
                                  .value = "self.value",
                                  .output = "output.dense"},
                    .attention_norm = "attention.output.LayerNorm",
                    .fc1 = "intermediate.dense",
                    .fc2 = "output.dense",
                    .final_norm = "output.LayerNorm"},
          .weights = Initializer::Normal(options.initializer_range)};
}

std::array<HostList, 5> ListsOf(const PackedTexts& texts, const std::vector<int32_t>& row_numbers) {
  return {texts.token_ids, texts.type_ids, texts.position_ids, texts.sequences.offsets(),
          row_numbers};
}

BertInputs InputsOf(const PackedTexts& texts, std::span<const Tensor> on_device) {
  BertInputs inputs{.token_ids = on_device[0],
                    .type_ids = on_device[1],
                    .position_ids = on_device[2],
                    .sequences = texts.sequences};
  inputs.sequences.set_device_offsets(on_device[3]);
  if (on_device[4].elements() > 0) inputs.sequences.set_row_numbers(on_device[4]);
  return inputs;
}

BertEmbeddings::BertEmbeddings(const Scope& scope, const BertOptions& options)
    : options_(options),
      words_(internal::AddEmbeddingTable(scope, "word_embeddings", options.vocab_size,
                                         options.hidden_size, options.initializer_range)),
      positions_(internal::AddEmbeddingTable(scope, "position_embeddings", options.max_positions,
                                             options.hidden_size, options.initializer_range)),
      types_(internal::AddEmbeddingTable(scope, "token_type_embeddings", options.type_vocab_size,
                                         options.hidden_size, options.initializer_range)),
      norm_(scope, "LayerNorm", options.hidden_size, options.layer_norm_epsilon),
      dropout_site_(scope.NewSite()) {}

Tensor BertEmbeddings::Forward(const BertInputs& inputs, Context& ctx) {
  const int64_t tokens = inputs.sequences.tokens();
  DT_CHECK_EQ(inputs.token_ids.elements(), tokens);
  DT_CHECK_EQ(inputs.type_ids.elements(), tokens);
  DT_CHECK_EQ(inputs.position_ids.elements(), tokens);
  DT_CHECK_LE(inputs.sequences.max_length(), options_.max_positions)
      << "a sequence is longer than the table of positions";
  Tensor x = ctx.Empty({tokens, options_.hidden_size});
  Tensor type_rows = ctx.Empty(x.shape());
  EmbeddingForward(inputs.token_ids, inputs.position_ids, words_.value(), positions_.value(), {}, x,
                   ctx.stream());
  GatherRows(types_.value(), inputs.type_ids, type_rows, ctx.stream());
  Tensor y = norm_.ForwardSum(x, type_rows, ctx);
  const Dropout dropout =
      ctx.MakeDropout(options_.dropout, dropout_site_, inputs.sequences.row_numbers());
  if (dropout.probability > 0.0f) {
    DropoutResidualForward(y, Tensor(), Tensor(), dropout, y, ctx.stream());
  }
  if (ctx.training()) {
    token_ids_ = inputs.token_ids;
    type_ids_ = inputs.type_ids;
    position_ids_ = inputs.position_ids;
    row_numbers_ = inputs.sequences.row_numbers();
  }
  return y;
}

void BertEmbeddings::Backward(const Tensor& dy, Context& ctx) {
  DT_CHECK(token_ids_) << "Backward() without Forward()";
  const Dropout dropout = ctx.MakeDropout(options_.dropout, dropout_site_, row_numbers_);
  Tensor d = dy;
  Tensor none;
  if (dropout.probability > 0.0f) DropoutResidualBackward(dy, dropout, d, none, ctx.stream());
  d = norm_.Backward(d, Tensor(), ctx);
  norm_.Release();
  EmbeddingBackward(d, type_ids_, Tensor(), {}, types_.gradient(), none, ctx.stream());
  types_.GradientReady();
  EmbeddingBackward(d, token_ids_, position_ids_, {}, words_.gradient(), positions_.gradient(),
                    ctx.stream());
  positions_.GradientReady();
  words_.GradientReady();
  token_ids_ = type_ids_ = position_ids_ = row_numbers_ = Tensor();
}

BertEncoder::BertEncoder(const Scope& scope, const BertOptions& options)
    : options_(options),
      embeddings_(scope / "embeddings", options),
      layers_(scope / "encoder", {.layer = LayerOptionsOf(options),
                                  .num_layers = options.num_layers,
                                  .layers_name = "layer"}) {}

Tensor BertEncoder::Forward(const BertInputs& inputs, Context& ctx, const OutputRows* rows) {
  return layers_.Forward(embeddings_.Forward(inputs, ctx),
                         {inputs.sequences, Tensor(), inputs.sequences, rows}, ctx);
}

void BertEncoder::Backward(Tensor d_hidden, const Sequences& sequences, Context& ctx,
                           const OutputRows* rows) {
  Tensor none;
  d_hidden =
      layers_.Backward(std::move(d_hidden), {sequences, Tensor(), sequences, rows}, none, ctx);
  embeddings_.Backward(d_hidden, ctx);
}

BertPooler::BertPooler(const Scope& scope, const BertOptions& options)
    : dense_(scope, "dense", options.hidden_size, options.hidden_size,
             Initializer::Normal(options.initializer_range)) {}

Tensor BertPooler::Forward(const Tensor& first, const Dropout& dropout, Context& ctx) {
  const Tensor before = dense_.ForwardNoBias(first, ctx);
  Tensor y = ctx.Empty(before.shape());
  BiasActivationForward(before, dense_.bias(), Activation::kTanh, dropout, y, ctx.stream());
  if (ctx.training()) {
    first_ = first;
    before_ = before;
  }
  return y;
}

Tensor BertPooler::Backward(const Tensor& dy, const Dropout& dropout, Context& ctx) {
  DT_CHECK(before_) << "Backward() without Forward()";
  Tensor d_before = ctx.Empty(dy.shape());
  Tensor d_bias = dense_.bias_gradient();
  BiasActivationBackward(dy, before_, dense_.bias(), Activation::kTanh, dropout, d_before, d_bias,
                         ctx.stream());
  Tensor d_first = ctx.Empty(dy.shape());
  dense_.Backward(first_, d_before, {.bias_gradient = false}, d_first, ctx);
  first_ = before_ = Tensor();
  return d_first;
}

}  // namespace dtrain
