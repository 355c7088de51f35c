// transformer_stack.h - layers in a row, and the recomputation of several layers at once.
// SPDX-License-Identifier: Apache-2.0
//
// Recompute::kEveryK (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4)
// cuts the stack into segments of k layers and keeps each segment's input. Backward runs a segment
// forward again, which then keeps everything, just before it goes back through it. Forward ends
// with the last segment: where backward starts right there, that one is kept instead.
#ifndef DTRAIN_NN_TRANSFORMER_STACK_H_
#define DTRAIN_NN_TRANSFORMER_STACK_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

struct TransformerStackOptions {
  TransformerLayerOptions layer;
  int num_layers = 6;
  std::string_view layers_name = "layers";
  // Whether backward begins with this stack, so that its last segment is not worth recomputing.
  bool backward_follows = true;
};

class TransformerStack {
 public:
  // Layer i is scope.layers.i, or what the options call it.
  TransformerStack(const Scope& scope, const TransformerStackOptions& options);

  // x: [tokens, hidden] to the same shape, or to [n, hidden] of n output rows.
  Tensor Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  // dx from dy; adds to d_memory (decoders). Frees what Forward kept.
  Tensor Backward(Tensor dy, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);

  size_t size() const { return layers_.size(); }
  TransformerLayer& layer(size_t i) { return *layers_[i]; }

 private:
  // Those of layer i: output rows are for the last one.
  LayerInputs InputsOf(size_t i, const LayerInputs& inputs) const;
  // Of layers [begin, size()), a multiple of k from the first one.
  bool IsKept(size_t begin, size_t k) const {
    return options_.backward_follows && begin + k >= layers_.size();
  }

  TransformerStackOptions options_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::vector<Tensor> segment_inputs_;  // of the last forward while training under kEveryK
};

}  // namespace dtrain

#endif  // DTRAIN_NN_TRANSFORMER_STACK_H_
