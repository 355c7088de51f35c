// attention.cc - attention's projections and their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/attention.h"

#include <vector>

#include "dtrain/ops/cast.h"
#include "dtrain/ops/rotary.h"

namespace dtrain {
namespace {

std::optional<Linear> MakeInput(const Scope& scope, const MultiHeadAttentionOptions& options) {
  if (options.cross) return std::nullopt;
  if (!options.names.input.empty()) {
    return Linear(scope, options.names.input, options.hidden_size, 3 * options.hidden_size,
                  options.weights, options.with_bias);
  }
  const std::string_view names[] = {options.names.query, options.names.key, options.names.value};
  return Linear(scope, names, options.hidden_size, options.hidden_size, options.weights,
                options.with_bias);
}

std::optional<Linear> MakeQuery(const std::optional<Linear>& input, const Scope& scope,
                                const MultiHeadAttentionOptions& options) {
  if (input && !options.names.input.empty()) return std::nullopt;
  if (input) return input->Parts(0, 1);
  return Linear(scope, options.names.query, options.hidden_size, options.hidden_size,
                options.weights, options.with_bias);
}

std::optional<Linear> MakeKeyValue(const std::optional<Linear>& input, const Scope& scope,
                                   const MultiHeadAttentionOptions& options) {
  if (input && !options.names.input.empty()) return std::nullopt;
  if (input) return input->Parts(1, 2);
  const std::string_view names[] = {options.names.key, options.names.value};
  return Linear(scope, names, options.hidden_size, options.hidden_size, options.weights,
                options.with_bias);
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const MultiHeadAttentionOptions& options)
    : options_(options),
      site_(scope.NewSite()),
      input_(MakeInput(scope, options)),
      query_(MakeQuery(input_, scope, options)),
      key_value_(MakeKeyValue(input_, scope, options)),
      output_(scope, options.names.output, options.hidden_size, options.hidden_size,
              options.weights, options.with_bias) {
  DT_CHECK_EQ(options.hidden_size % options.num_heads, 0)
      << "hidden_size must be a multiple of num_heads";
}

AttentionOptions MultiHeadAttention::OpOptions(const Sequences& queries, Context& ctx) const {
  return {.num_heads = options_.num_heads,
          .causal = options_.causal,
          .window = options_.window,
          .dropout = ctx.MakeDropout(options_.dropout, site_, queries.row_numbers())};
}

Tensor MultiHeadAttention::Forward(const AttentionInputs& inputs, Context& ctx) {
  const int64_t hidden = options_.hidden_size;
  const bool apart = is_apart(inputs);
  DT_CHECK(!apart || query_) << "one projection for all cannot project queries alone";
  const Tensor projected = (apart ? *query_ : *input_).Forward(inputs.x, ctx);
  if (inputs.rotary_table) {
    DT_CHECK(!apart) << "rotary positions need queries and keys of the same tokens";
    Tensor turned = QueriesAndKeys(projected);
    RotaryForward(inputs.rotary_table, inputs.position_ids, turned, ctx.stream());
  }
  const Tensor keys_values =
      apart ? key_value_->Forward(inputs.memory, ctx) : projected.Columns(hidden, 3 * hidden);
  AttentionSaved saved{
      .q = projected.Columns(0, hidden),
      .k = keys_values.Columns(0, hidden),
      .v = keys_values.Columns(hidden, 2 * hidden),
      .out = ctx.Empty({inputs.x.dim(0), hidden}),
      .log_sum_exp = ctx.Empty({inputs.x.dim(0), options_.num_heads}, DType::kFloat32)};
  AttentionForward(saved.q, saved.k, saved.v, inputs.queries, inputs.keys,
                   OpOptions(inputs.queries, ctx), saved.out, saved.log_sum_exp, ctx.stream());
  Tensor result = output_.ForwardNoBias(saved.out, ctx);
  if (ctx.training()) saved_ = std::move(saved);
  return result;
}

void MultiHeadAttention::Backward(const AttentionInputs& inputs, const Tensor& d_out,
                                  bool accumulate_dx, Tensor& dx, Tensor& d_memory, Context& ctx) {
  DT_CHECK(saved_.q) << "Backward() without Forward()";
  const int64_t hidden = options_.hidden_size;
  Tensor d_attention = ctx.Empty(d_out.shape());
  output_.Backward(saved_.out, d_out, {.bias_gradient = false}, d_attention, ctx);
  const bool apart = is_apart(inputs);
  const Linear& projection = apart ? *query_ : *input_;
  Tensor d_projected = ctx.Empty({inputs.x.dim(0), projection.out()});
  Tensor d_keys_values = apart ? ctx.Empty({inputs.memory.dim(0), 2 * hidden})
                               : d_projected.Columns(hidden, 3 * hidden);
  Tensor dq = d_projected.Columns(0, hidden);
  Tensor dk = d_keys_values.Columns(0, hidden);
  Tensor dv = d_keys_values.Columns(hidden, 2 * hidden);
  AttentionBackward(d_attention, saved_, inputs.queries, inputs.keys,
                    OpOptions(inputs.queries, ctx), dq, dk, dv, ctx.stream());
  if (inputs.rotary_table) {
    Tensor turned = QueriesAndKeys(d_projected);
    RotaryBackward(inputs.rotary_table, inputs.position_ids, turned, ctx.stream());
  }
  Release();
  d_attention = Tensor();
  const bool in_parts = apart && !options_.cross;
  if (apart) {
    key_value_->Backward(inputs.memory, d_keys_values,
                         {.accumulate_dx = options_.cross, .report_ready = !in_parts}, d_memory,
                         ctx);
  }
  projection.Backward(inputs.x, d_projected,
                      {.accumulate_dx = accumulate_dx, .report_ready = !in_parts}, dx, ctx);
  if (in_parts) input_->GradientsReady();
}

void MultiHeadAttention::Release() { saved_ = AttentionSaved(); }

Tensor MultiHeadAttention::ForwardSelfStep(const Tensor& x, const Tensor& slots, int64_t first_slot,
                                           Tensor& keys_values, Context& ctx) {
  const int64_t hidden = options_.hidden_size;
  const Tensor projected = input_->Forward(x, ctx);
  Tensor written = keys_values.Rows(first_slot, first_slot + x.dim(0));
  Cast(projected.Columns(hidden, 3 * hidden), written, ctx.stream());
  Tensor out = ctx.Empty({x.dim(0), hidden});
  CachedAttention(projected.Columns(0, hidden), keys_values.Columns(0, hidden),
                  keys_values.Columns(hidden, 2 * hidden), slots, options_.num_heads, out,
                  ctx.stream());
  return output_.ForwardNoBias(out, ctx);
}

Tensor MultiHeadAttention::ProjectMemory(const Tensor& memory, Context& ctx) {
  return key_value_->Forward(memory, ctx);
}

Tensor MultiHeadAttention::ForwardCrossStep(const Tensor& x, const Sequences& queries,
                                            const Tensor& keys_values, const Sequences& keys,
                                            Context& ctx) {
  const int64_t hidden = options_.hidden_size;
  const Tensor q = query_->Forward(x, ctx);
  Tensor out = ctx.Empty({x.dim(0), hidden});
  Tensor log_sum_exp = ctx.Empty({x.dim(0), options_.num_heads}, DType::kFloat32);
  AttentionForward(q, keys_values.Columns(0, hidden), keys_values.Columns(hidden, 2 * hidden),
                   queries, keys, OpOptions(queries, ctx), out, log_sum_exp, ctx.stream());
  return output_.ForwardNoBias(out, ctx);
}

}  // namespace dtrain
