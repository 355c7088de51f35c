// transformer_stack.cc - runs segments forward, and backward with one recomputation each.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

TransformerStack::TransformerStack(const Scope& scope, const TransformerStackOptions& options)
    : options_(options) {
  for (int i = 0; i < options.num_layers; ++i) {
    layers_.push_back(std::make_unique<TransformerLayer>(
        scope / options.layers_name / std::to_string(i), options.layer));
  }
}

LayerInputs TransformerStack::InputsOf(size_t i, const LayerInputs& inputs) const {
  LayerInputs own = inputs;
  if (i + 1 < layers_.size()) own.output_rows = nullptr;
  return own;
}

Tensor TransformerStack::Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx) {
  const bool in_segments = ctx.training() && ctx.recompute() == Recompute::kEveryK;
  const auto k = static_cast<size_t>(ctx.recompute_every());
  segment_inputs_.clear();
  Tensor y = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (in_segments && i % k == 0) segment_inputs_.push_back(y);
    y = layers_[i]->Forward(y, InputsOf(i, inputs), ctx);
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
        x = layers_[i]->Forward(x, InputsOf(i, inputs), ctx);
      }
    }
    for (; end > begin; --end) {
      dy = layers_[end - 1]->Backward(dy, InputsOf(end - 1, inputs), d_memory, ctx);
    }
  }
  return dy;
}

}  // namespace dtrain
