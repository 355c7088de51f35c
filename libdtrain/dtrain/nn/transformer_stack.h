// transformer_stack.h - consecutive layers, and the recomputation of several layers at once.
// SPDX-License-Identifier: Apache-2.0
//
// Recompute::kEveryK (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4)
// splits the stack into segments of k layers and keeps each segment's input. Before backward goes
// through a segment, it runs the segment's forward again, which then keeps everything. If backward
// starts directly after this stack's forward, the last segment is kept instead of run again.
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
  // True if backward begins with this stack, so that its last segment need not be recomputed.
  bool backward_follows = true;
};

class TransformerStack {
 public:
  // Layer i has the scope layers.i, or the name in the options.
  TransformerStack(const Scope& scope, const TransformerStackOptions& options);

  // x: [tokens, hidden]. Returns the same shape, or [n, hidden] for n output rows.
  Tensor Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  // Returns dx from dy and adds to d_memory (decoders). Frees the tensors that Forward kept.
  Tensor Backward(Tensor dy, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);

  size_t size() const { return layers_.size(); }
  TransformerLayer& layer(size_t i) { return *layers_[i]; }

 private:
  // The inputs of layer i: only the last layer gets output rows.
  LayerInputs InputsOf(size_t i, const LayerInputs& inputs) const;
  // True if the segment of layers that starts at `begin` is the last one and is kept.
  bool IsKept(size_t begin, size_t k) const {
    return options_.backward_follows && begin + k >= layers_.size();
  }

  TransformerStackOptions options_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::vector<Tensor> segment_inputs_;  // from the last forward while training with kEveryK
};

}  // namespace dtrain

#endif  // DTRAIN_NN_TRANSFORMER_STACK_H_
