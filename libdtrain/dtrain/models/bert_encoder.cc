// bert_encoder.cc - the sums of up to three tables, and the stack, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_encoder.h"

#include <utility>

#include "dtrain/models/internal/embedding_table.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/embedding.h"

namespace dtrain {
namespace {

// The rows of the position table, or of its gradient, that tokens have: position 0 is the first.
Tensor UsedPositions(const Tensor& table, const BertOptions& options) {
  return table.Rows(options.position_offset, options.position_offset + options.max_positions);
}

}  // namespace

TransformerStackOptions StackOptionsOf(const BertOptions& options) {
  const EncoderForm& form = options.family->form;
  TransformerStackOptions stack{
      .layer = {.hidden_size = options.hidden_size,
                .ffn_size = options.ffn_size,
                .num_heads = options.num_heads,
                .activation = options.activation,
                .gated = form.is_gated,
                .attention_bias = form.has_biases,
                .feed_forward_bias = form.has_biases,
                .norm_bias = form.has_biases,
                .pre_norm = form.is_pre_norm(),
                .layer_norm_epsilon = options.layer_norm_epsilon,
                .dropout = options.dropout,
                .attention_dropout = options.attention_dropout,
                .names = form.layers,
                .weights = Initializer::Normal(options.initializer_range)},
      .num_layers = options.num_layers,
      .layers_name = options.family->layers,
      .first_norm = !form.is_pre_norm(),
      .max_length = options.max_positions};
  if (form.has_rotary_positions) {
    stack.layer.window = static_cast<int>(options.local_attention / 2);
    stack.layer.rotary_theta = options.local_theta;
    stack.whole_every = options.whole_every;
    stack.whole_theta = options.whole_theta;
  }
  return stack;
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
      words_(internal::AddEmbeddingTable(scope, options.family->form.words, options.vocab_size,
                                         options.embedding_width(), options.initializer_range)),
      positions_(
          options.position_rows() > 0
              ? &internal::AddEmbeddingTable(scope, "position_embeddings", options.position_rows(),
                                             options.embedding_width(), options.initializer_range)
              : nullptr),
      types_(options.has_types() ? &internal::AddEmbeddingTable(
                                       scope, "token_type_embeddings", options.type_vocab_size,
                                       options.embedding_width(), options.initializer_range)
                                 : nullptr),
      norm_(scope, options.family->form.embedding_norm, options.embedding_width(),
            options.layer_norm_epsilon, options.family->form.has_biases),
      dropout_site_(scope.NewSite()) {}

Tensor BertEmbeddings::Forward(const BertInputs& inputs, Context& ctx) {
  const int64_t tokens = inputs.sequences.tokens();
  DT_CHECK_EQ(inputs.token_ids.elements(), tokens);
  if (types_ != nullptr) DT_CHECK_EQ(inputs.type_ids.elements(), tokens);
  DT_CHECK_EQ(inputs.position_ids.elements(), tokens);
  DT_CHECK_LE(inputs.sequences.max_length(), options_.max_positions)
      << "a sequence is longer than the table of positions";
  Tensor x = ctx.Empty({tokens, options_.embedding_width()});
  Tensor type_rows;
  if (types_ != nullptr) type_rows = ctx.Empty(x.shape());
  const Tensor positions =
      positions_ != nullptr ? UsedPositions(positions_->value(), options_) : Tensor();
  EmbeddingForward(inputs.token_ids, inputs.position_ids, words_.value(), positions, {}, x,
                   ctx.stream());
  if (types_ != nullptr) {
    GatherRows(types_->value(), inputs.type_ids, type_rows, ctx.stream());
  }
  Tensor y = types_ != nullptr ? norm_.ForwardSum(x, type_rows, ctx) : norm_.Forward(x, ctx);
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
  if (words_.is_frozen()) return Release();
  const Dropout dropout = ctx.MakeDropout(options_.dropout, dropout_site_, row_numbers_);
  Tensor d = dy;
  Tensor none;
  if (dropout.probability > 0.0f) DropoutResidualBackward(dy, dropout, d, none, ctx.stream());
  d = norm_.Backward(d, Tensor(), ctx);
  if (types_ != nullptr) {
    EmbeddingBackward(d, type_ids_, Tensor(), {}, types_->gradient(), none, ctx.stream());
    types_->GradientReady();
  }
  Tensor d_positions;
  if (positions_ != nullptr) d_positions = UsedPositions(positions_->gradient(), options_);
  EmbeddingBackward(d, token_ids_, position_ids_, {}, words_.gradient(), d_positions, ctx.stream());
  if (positions_ != nullptr) positions_->GradientReady();
  words_.GradientReady();
  Release();
}

void BertEmbeddings::Release() {
  norm_.Release();
  token_ids_ = type_ids_ = position_ids_ = row_numbers_ = Tensor();
}

BertEncoder::BertEncoder(const Scope& scope, const BertOptions& options)
    : options_(options),
      embeddings_(scope.Adapted(options_.low_rank) / "embeddings", options),
      projection_(options.has_projection()
                      ? std::optional<Linear>(std::in_place, scope.Adapted(options_.low_rank),
                                              "embeddings_project", options.embedding_width(),
                                              options.hidden_size,
                                              Initializer::Normal(options.initializer_range))
                      : std::nullopt),
      layers_(scope.Adapted(options_.low_rank), StackOptionsOf(options)) {
  const EncoderForm& form = options.family->form;
  if (!form.is_pre_norm()) return;
  final_norm_.emplace(scope.Adapted(options_.low_rank), form.final_norm, options.hidden_size,
                      options.layer_norm_epsilon, form.has_biases);
}

Tensor BertEncoder::Forward(const BertInputs& inputs, Context& ctx, const OutputRows* rows) {
  Tensor x = embeddings_.Forward(inputs, ctx);
  if (projection_) {
    const Tensor embedded = x;
    x = projection_->Forward(embedded, ctx);
    if (ctx.training()) embedded_ = embedded;
  }
  LayerInputs of_layers{inputs.sequences, Tensor(), inputs.sequences};
  if (options_.family->form.has_rotary_positions) of_layers.position_ids = inputs.position_ids;
  if (ctx.training()) position_ids_ = of_layers.position_ids;
  if (!final_norm_) {
    of_layers.output_rows = rows;
    return layers_.Forward(x, of_layers, ctx);
  }
  x = layers_.Forward(x, of_layers, ctx);
  if (rows != nullptr) {
    const Tensor all = std::exchange(x, ctx.Empty({rows->rows.elements(), options_.hidden_size}));
    GatherRows(all, rows->rows, x, ctx.stream());
  }
  return final_norm_->Forward(x, ctx);
}

void BertEncoder::Backward(Tensor d_hidden, const Sequences& sequences, Context& ctx,
                           const OutputRows* rows) {
  Tensor none;
  LayerInputs of_layers{sequences, Tensor(), sequences};
  of_layers.position_ids = std::exchange(position_ids_, Tensor());
  if (!final_norm_) of_layers.output_rows = rows;
  if (final_norm_) d_hidden = BackwardFinalNorm(d_hidden, sequences, ctx, rows);
  d_hidden = layers_.Backward(std::move(d_hidden), of_layers, none, ctx);
  if (projection_) {
    Tensor d_embedded = ctx.Empty(embedded_.shape());
    projection_->Backward(std::exchange(embedded_, Tensor()), d_hidden, {}, d_embedded, ctx);
    d_hidden = std::move(d_embedded);
  }
  embeddings_.Backward(d_hidden, ctx);
}

Tensor BertEncoder::BackwardFinalNorm(const Tensor& dy, const Sequences& sequences, Context& ctx,
                                      const OutputRows* rows) {
  Tensor dx = final_norm_->Backward(dy, Tensor(), ctx);
  final_norm_->Release();
  if (rows == nullptr) return dx;
  const Tensor own = std::exchange(dx, ctx.Empty({sequences.tokens(), options_.hidden_size}));
  Zero(dx, ctx.stream());
  ScatterAddRows(own, rows->rows, dx, ctx.stream());
  return dx;
}

}  // namespace dtrain
