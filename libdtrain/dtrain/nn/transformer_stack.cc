// transformer_stack.cc - runs segments forward, and backward with one recomputation each.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dtrain/nn/rotary_positions.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

TransformerLayerOptions LayerOptionsOf(const TransformerStackOptions& stack, int i) {
  TransformerLayerOptions layer = stack.layer;
  if (i == 0 && !stack.first_norm) layer.attention_norm = false;
  if (stack.whole_every > 0 && i % stack.whole_every == 0) {
    layer.window = 0;
    layer.rotary_theta = stack.whole_theta;
  }
  return layer;
}

TransformerStack::TransformerStack(const Scope& scope, const TransformerStackOptions& options)
    : options_(options) {
  const int64_t head_dim = options.layer.hidden_size / options.layer.num_heads;
  std::map<float, RotaryPositions*> of_theta;
  for (int i = 0; i < options.num_layers; ++i) {
    const TransformerLayerOptions layer = LayerOptionsOf(options, i);
    layers_.push_back(
        std::make_unique<TransformerLayer>(scope / options.layers_name / std::to_string(i), layer));
    const float theta = layer.rotary_theta;
    if (theta > 0.0f && !of_theta.contains(theta)) {
      rotary_.push_back(std::make_unique<RotaryPositions>(RotaryPositions::Options{
          .max_length = options.max_length, .head_dim = head_dim, .theta = theta}));
      of_theta[theta] = rotary_.back().get();
    }
    rotary_of_.push_back(theta > 0.0f ? of_theta[theta] : nullptr);
  }
}

TransformerStack::~TransformerStack() = default;

LayerInputs TransformerStack::InputsOf(size_t i, const LayerInputs& inputs, const Context& ctx) {
  LayerInputs own = inputs;
  if (i + 1 < layers_.size()) own.output_rows = nullptr;
  if (rotary_of_[i] != nullptr) {
    DT_CHECK_LE(inputs.sequences.max_length(), options_.max_length)
        << "a sequence is longer than the table of rotary positions";
    own.rotary_table = rotary_of_[i]->Table(ctx);
  }
  return own;
}

Tensor TransformerStack::Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx) {
  const bool in_segments = ctx.training() && ctx.recompute() == Recompute::kEveryK;
  const auto k = static_cast<size_t>(ctx.recompute_every());
  segment_inputs_.clear();
  Tensor y = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (in_segments && i % k == 0) segment_inputs_.push_back(y);
    y = layers_[i]->Forward(y, InputsOf(i, inputs, ctx), ctx);
    if (in_segments && !IsKept(i / k * k, k)) layers_[i]->Release();
  }
  return y;
}

Tensor TransformerStack::Backward(Tensor dy, const LayerInputs& inputs, Tensor& d_memory,
                                  Context& ctx) {
  const bool in_segments = ctx.recompute() == Recompute::kEveryK;
  const size_t k = in_segments ? static_cast<size_t>(ctx.recompute_every()) : layers_.size();
  size_t end = layers_.size();
  while (end > 0) {
    const size_t begin = (end - 1) / k * k;
    if (in_segments) {
      DT_CHECK(!segment_inputs_.empty()) << "Backward() without Forward()";
      Tensor x = std::exchange(segment_inputs_.back(), Tensor());
      segment_inputs_.pop_back();
      for (size_t i = begin; i < end && !IsKept(begin, k); ++i) {
        x = layers_[i]->Forward(x, InputsOf(i, inputs, ctx), ctx);
      }
    }
    for (; end > begin; --end) {
      dy = layers_[end - 1]->Backward(dy, InputsOf(end - 1, inputs, ctx), d_memory, ctx);
    }
  }
  return dy;
}

}  // namespace dtrain
