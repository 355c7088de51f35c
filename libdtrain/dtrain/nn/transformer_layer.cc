// transformer_layer.cc - sublayers in forward and in reverse order, with recomputation.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/transformer_layer.h"

#include "dtrain/base/check.h"
#include "dtrain/nn/attention.h"
#include "dtrain/nn/feed_forward.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/linear.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/ops/dropout_residual.h"

namespace dtrain {

TransformerLayer::TransformerLayer(const Scope& scope, const TransformerLayerOptions& options)
    : options_(options) {
  MultiHeadAttentionOptions attention{.hidden_size = options.hidden_size,
                                      .num_heads = options.num_heads,
                                      .dropout = options.attention_dropout,
                                      .causal = options.causal || options.decoder,
                                      .with_bias = options.attention_bias,
                                      .window = options.window,
                                      .names = options.names.attention,
                                      .weights = options.weights};
  const auto make_norm = [&](std::string_view name) {
    return std::make_unique<LayerNorm>(scope, name, options.hidden_size, options.layer_norm_epsilon,
                                       options.norm_bias);
  };
  const auto add_norm = [&](Kind kind, std::string_view name) {
    const bool is_left_out = kind == Kind::kSelfAttention && !options.attention_norm;
    sublayers_.push_back({kind, is_left_out ? nullptr : make_norm(name), scope.NewSite(), {}});
  };
  DT_CHECK(options.attention_norm || options.pre_norm)
      << "only pre-norm layers work without attention_norm";
  const LayerNames& names = options.names;
  self_attention_ = std::make_unique<MultiHeadAttention>(scope / names.self_attention, attention);
  add_norm(Kind::kSelfAttention, names.attention_norm);
  if (options.decoder) {
    attention.causal = false;
    attention.window = 0;
    attention.cross = true;
    cross_attention_ = std::make_unique<MultiHeadAttention>(scope / "encoder_attn", attention);
    add_norm(Kind::kCrossAttention, "encoder_attn_layer_norm");
  }
  feed_forward_ = std::make_unique<FeedForward>(
      scope, FeedForwardOptions{.hidden_size = options.hidden_size,
                                .ffn_size = options.ffn_size,
                                .activation = options.activation,
                                .gated = options.gated,
                                .with_bias = options.feed_forward_bias,
                                .dropout = options.activation_dropout,
                                .fc1_name = names.fc1,
                                .fc2_name = names.fc2,
                                .weights = options.weights});
  add_norm(Kind::kFeedForward, names.final_norm);
}

TransformerLayer::TransformerLayer(TransformerLayer&& other) noexcept = default;
TransformerLayer::~TransformerLayer() = default;

AttentionInputs TransformerLayer::SelfAttentionInputs(const Tensor& x,
                                                      const LayerInputs& inputs) const {
  // An encoder's layer has a memory only if it computes some rows alone: x has those rows, memory
  // has all rows.
  if (options_.decoder || !inputs.memory) {
    return {
        x, inputs.sequences, Tensor(), inputs.sequences, inputs.rotary_table, inputs.position_ids};
  }
  return {x, inputs.sequences, inputs.memory, inputs.memory_sequences};
}

const Linear& TransformerLayer::OutputOf(Kind kind) const {
  switch (kind) {
    case Kind::kSelfAttention:
      return self_attention_->output();
    case Kind::kCrossAttention:
      return cross_attention_->output();
    case Kind::kFeedForward:
      break;
  }
  return feed_forward_->output();
}

Tensor TransformerLayer::Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx) {
  const OutputRows* output = inputs.output_rows;
  DT_CHECK_EQ(options_.rotary_theta > 0.0f, static_cast<bool>(inputs.rotary_table))
      << "a table of rotary positions is for layers with a theta";
  if (output == nullptr) return ForwardRows(x, inputs, ctx);
  DT_CHECK(!options_.pre_norm && !options_.decoder && !options_.causal && options_.window == 0 &&
           options_.rotary_theta == 0.0f)
      << "output_rows works only in post-norm encoders without windows and rotary positions";
  DT_CHECK_EQ(x.dim(0), inputs.sequences.tokens());
  DT_CHECK_EQ(output->rows.elements(), output->sequences.tokens());
  DT_CHECK_EQ(static_cast<bool>(inputs.sequences.row_numbers()),
              static_cast<bool>(output->sequences.row_numbers()))
      << "the output rows of a batch with row numbers must have row numbers";
  Tensor own = ctx.Empty({output->rows.elements(), options_.hidden_size});
  GatherRows(x, output->rows, own, ctx.stream());
  Tensor y = ForwardRows(own, {output->sequences, x, inputs.sequences}, ctx);
  if (ctx.training()) all_rows_ = x;
  return y;
}

Tensor TransformerLayer::ForwardRows(const Tensor& x, const LayerInputs& inputs, Context& ctx) {
  Tensor y = ForwardSublayers(x, inputs, ctx);
  if (ctx.training()) {
    if (ctx.recompute() == Recompute::kFull) Release();
    x_ = x;
  }
  return y;
}

Tensor TransformerLayer::ForwardSublayers(const Tensor& x, const LayerInputs& inputs,
                                          Context& ctx) {
  Tensor y = x;
  for (Sublayer& sublayer : sublayers_) {
    const Tensor input = options_.pre_norm && sublayer.norm ? sublayer.norm->Forward(y, ctx) : y;
    if (ctx.training() && ctx.recompute() != Recompute::kCheap) sublayer.input = input;
    y = FinishSublayer(sublayer, ForwardBlock(sublayer.kind, input, inputs, ctx), y,
                       inputs.sequences.row_numbers(), ctx);
  }
  return y;
}

Tensor TransformerLayer::FinishSublayer(Sublayer& sublayer, const Tensor& result,
                                        const Tensor& residual, const Tensor& row_numbers,
                                        Context& ctx) {
  const Linear& linear = OutputOf(sublayer.kind);
  const Dropout dropout = ctx.MakeDropout(options_.dropout, sublayer.site, row_numbers);
  if (!options_.pre_norm) {
    return sublayer.norm->ForwardResidual(result, linear, residual, dropout, ctx);
  }
  Tensor y = result;
  DropoutResidualForward(result, linear.bias(), residual, dropout, y, ctx.stream());
  return y;
}

Tensor TransformerLayer::ForwardBlock(Kind kind, const Tensor& x, const LayerInputs& inputs,
                                      Context& ctx) {
  switch (kind) {
    case Kind::kSelfAttention:
      return self_attention_->Forward(SelfAttentionInputs(x, inputs), ctx);
    case Kind::kCrossAttention:
      return cross_attention_->Forward(
          {x, inputs.sequences, inputs.memory, inputs.memory_sequences}, ctx);
    case Kind::kFeedForward:
      break;
  }
  return feed_forward_->Forward(x, inputs.sequences.row_numbers(), ctx);
}

Tensor TransformerLayer::Backward(const Tensor& dy, const LayerInputs& inputs, Tensor& d_memory,
                                  Context& ctx) {
  DT_CHECK(x_) << "Backward() without Forward()";
  const OutputRows* output = inputs.output_rows;
  if (output == nullptr) return BackwardRows(dy, inputs, d_memory, ctx);
  const Tensor x = all_rows_;
  Tensor dx = ctx.Empty(x.shape());
  const Tensor d_own = BackwardRows(dy, {output->sequences, x, inputs.sequences}, dx, ctx);
  ScatterAddRows(d_own, output->rows, dx, ctx.stream());
  return dx;
}

Tensor TransformerLayer::BackwardRows(const Tensor& dy, const LayerInputs& inputs, Tensor& d_memory,
                                      Context& ctx) {
  if (ctx.recompute() == Recompute::kFull) ForwardSublayers(x_, inputs, ctx);
  Tensor gradient = dy;
  for (size_t i = sublayers_.size(); i-- > 0;) {
    gradient = BackwardSublayer(i, gradient, inputs, d_memory, ctx);
  }
  Release();
  return gradient;
}

Tensor TransformerLayer::BlockInput(size_t i, Context& ctx) {
  if (sublayers_[i].input) return sublayers_[i].input;
  if (!sublayers_[i].norm) return x_;
  if (options_.pre_norm) return sublayers_[i].norm->RecomputeOutput(ctx);
  return i == 0 ? x_ : sublayers_[i - 1].norm->RecomputeOutput(ctx);
}

Tensor TransformerLayer::BackwardSublayer(size_t i, const Tensor& dy, const LayerInputs& inputs,
                                          Tensor& d_memory, Context& ctx) {
  Sublayer& sublayer = sublayers_[i];
  const Linear& linear = OutputOf(sublayer.kind);
  const Dropout dropout =
      ctx.MakeDropout(options_.dropout, sublayer.site, inputs.sequences.row_numbers());
  const Tensor input = BlockInput(i, ctx);
  Tensor dx;
  if (options_.pre_norm) {
    Tensor d_result = dropout.probability > 0.0f ? ctx.Empty(dy.shape()) : dy;
    Tensor d_bias = linear.bias_gradient();
    DropoutResidualBackward(dy, dropout, d_result, d_bias, ctx.stream());
    Tensor d_input = sublayer.norm ? ctx.Empty(dy.shape()) : dy;
    BackwardBlock(sublayer.kind, input, d_result, /*accumulate_dx=*/!sublayer.norm, d_input, inputs,
                  d_memory, ctx);
    dx = sublayer.norm ? sublayer.norm->Backward(d_input, dy, ctx) : d_input;
  } else {
    LayerNorm::ResidualGradients gradients =
        sublayer.norm->BackwardResidual(dy, linear, dropout, ctx);
    dx = gradients.d_residual;
    BackwardBlock(sublayer.kind, input, gradients.dx, /*accumulate_dx=*/true, dx, inputs, d_memory,
                  ctx);
  }
  if (sublayer.norm) sublayer.norm->Release();
  sublayer.input = Tensor();
  return dx;
}

void TransformerLayer::BackwardBlock(Kind kind, const Tensor& x, const Tensor& d_out,
                                     bool accumulate_dx, Tensor& dx, const LayerInputs& inputs,
                                     Tensor& d_memory, Context& ctx) {
  switch (kind) {
    case Kind::kSelfAttention:
      self_attention_->Backward(SelfAttentionInputs(x, inputs), d_out, accumulate_dx, dx, d_memory,
                                ctx);
      return;
    case Kind::kCrossAttention:
      cross_attention_->Backward({x, inputs.sequences, inputs.memory, inputs.memory_sequences},
                                 d_out, accumulate_dx, dx, d_memory, ctx);
      return;
    case Kind::kFeedForward:
      feed_forward_->Backward(x, inputs.sequences.row_numbers(), d_out, accumulate_dx, dx, ctx);
  }
}

void TransformerLayer::Release() {
  x_ = all_rows_ = Tensor();
  self_attention_->Release();
  if (cross_attention_) cross_attention_->Release();
  feed_forward_->Release();
  for (Sublayer& sublayer : sublayers_) {
    if (sublayer.norm) sublayer.norm->Release();
    sublayer.input = Tensor();
  }
}

void TransformerLayer::StartDecoding(const Tensor& memory, int64_t slots, LayerCache& cache,
                                     Context& ctx) {
  DT_CHECK(options_.attention_norm && options_.window == 0 && options_.rotary_theta == 0.0f)
      << "decoding is for layers without windows and rotary positions";
  cache.keys_values = ctx.Empty({slots, 2 * options_.hidden_size});
  if (cross_attention_) cache.memory_keys_values = cross_attention_->ProjectMemory(memory, ctx);
}

Tensor TransformerLayer::ForwardStep(const Tensor& x, const StepInputs& inputs, LayerCache& cache,
                                     Context& ctx) {
  Tensor y = x;
  for (Sublayer& sublayer : sublayers_) {
    const Tensor input = options_.pre_norm ? sublayer.norm->Forward(y, ctx) : y;
    y = FinishSublayer(sublayer, StepBlock(sublayer.kind, input, inputs, cache, ctx), y, Tensor(),
                       ctx);
  }
  return y;
}

Tensor TransformerLayer::StepBlock(Kind kind, const Tensor& x, const StepInputs& inputs,
                                   LayerCache& cache, Context& ctx) {
  switch (kind) {
    case Kind::kSelfAttention:
      return self_attention_->ForwardSelfStep(x, inputs.slots, inputs.first_slot, cache.keys_values,
                                              ctx);
    case Kind::kCrossAttention:
      return cross_attention_->ForwardCrossStep(x, inputs.rows, cache.memory_keys_values,
                                                inputs.memory_sequences, ctx);
    case Kind::kFeedForward:
      break;
  }
  return feed_forward_->Forward(x, /*row_numbers=*/Tensor(), ctx);
}

}  // namespace dtrain
