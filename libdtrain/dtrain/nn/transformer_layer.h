// transformer_layer.h - layers of an encoder, decoder or language model, and stacks of them.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   TransformerStack encoder(
//       Scope(parameters, "encoder"),
//       {.layer = {.hidden_size = 64, .ffn_size = 128, .num_heads = 4}, .num_layers = 2});
//   parameters.Allocate(ctx.device(), ctx.compute_type(), /*seed=*/1);
//   const Sequences batch({0, 5, 8});
//   const Tensor y = encoder.Forward(ctx.Empty({8, 64}), {batch, {}, batch}, ctx);  // [8, 64]
//
// Each sublayer f (self-attention, cross-attention in decoders, feed-forward) is wrapped as
//   post-norm: y = LayerNorm(x + dropout(f(x)))      Vaswani et al. 2017, section 3.1
//   pre-norm:  y = x + dropout(f(LayerNorm(x)))      Xiong et al. 2020, figure 1b
// By default parameters are named as in MarianMTModel: self_attn, self_attn_layer_norm,
// encoder_attn, encoder_attn_layer_norm, fc1, fc2, final_layer_norm.
#ifndef DTRAIN_NN_TRANSFORMER_LAYER_H_
#define DTRAIN_NN_TRANSFORMER_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/activation.h"

namespace dtrain {

struct AttentionInputs;
class FeedForward;
class LayerNorm;
class Linear;
class MultiHeadAttention;
class RotaryPositions;

// Names of the projections of attention, below its scope.
struct AttentionNames {
  std::string_view query = "q_proj";
  std::string_view key = "k_proj";
  std::string_view value = "v_proj";
  std::string_view output = "out_proj";
  // If not empty, self-attention has one projection of this name in place of the first three. Its
  // weight is [3 * hidden, hidden]: rows for queries, then keys, then values.
  std::string_view input = "";
};

// Names of the layer's parameters below its scope.
struct LayerNames {
  std::string_view self_attention = "self_attn";
  AttentionNames attention = {};  // below self_attention and encoder_attn
  std::string_view attention_norm = "self_attn_layer_norm";
  std::string_view fc1 = "fc1";
  std::string_view fc2 = "fc2";
  std::string_view final_norm = "final_layer_norm";
};

// Sizes, form and dropout of a layer.
struct TransformerLayerOptions {
  int64_t hidden_size = 512;
  int64_t ffn_size = 2048;
  int num_heads = 8;
  Activation activation = Activation::kRelu;
  bool gated = false;             // gated feed-forward blocks (nn/feed_forward.h)
  bool attention_bias = true;     // biases of attention's projections,
  bool feed_forward_bias = true;  // of the feed-forward block's,
  bool norm_bias = true;          // and of the layer norms
  bool pre_norm = false;
  bool attention_norm = true;  // false: self-attention in a pre-norm layer reads x itself
  float layer_norm_epsilon = 1e-5f;
  float dropout = 0.1f;             // of each sublayer's output
  float attention_dropout = 0.0f;   // of the attention probabilities
  float activation_dropout = 0.0f;  // after the activation
  bool causal = false;              // self-attention sees no later tokens, as in language models
  bool decoder = false;             // causal self-attention, followed by cross-attention
  int window = 0;  // self-attention sees tokens up to this far away on either side; 0: all tokens
  // Theta of rotary positions (ops/rotary.h) in self-attention; 0: the layer does not see
  // positions.
  float rotary_theta = 0.0f;
  LayerNames names = {};
  Initializer weights = Initializer::XavierUniform();  // of all matrices; biases start at 0
};

// The rows of a layer's output that are used, when the others are not needed.
struct OutputRows {
  Tensor rows;          // [n], int32, on the batch's device, in ascending order
  Sequences sequences;  // the division of these rows into the batch's sequences; has row numbers if
                        // the batch has them
};

// The packed batch a layer processes. memory and memory_sequences are for decoders only.
struct LayerInputs {
  const Sequences& sequences;
  Tensor memory;  // [memory tokens, hidden]: the encoder's output
  const Sequences& memory_sequences;
  // If not null, the layer (in a stack, the last layer) computes only these rows, from the keys and
  // values of all rows. Its output and output gradient are then [n, hidden]. For post-norm
  // encoders.
  const OutputRows* output_rows = nullptr;
  // For layers with rotary positions. position_ids: [tokens], int32, each token's number in its
  // sequence. rotary_table: RotaryPositions::Table() for the layer's theta; a stack has its own.
  Tensor position_ids = {};
  Tensor rotary_table = {};
};

// Caches of one decoder layer or causal layer during incremental decoding.
struct LayerCache {
  Tensor keys_values;         // [slots, 2 * hidden], of earlier positions
  Tensor memory_keys_values;  // [memory tokens, 2 * hidden]; decoders only
};

// One decoding step for a batch of rows (hypotheses).
struct StepInputs {
  Tensor slots;            // [rows, positions so far + 1], int32: the cache slots of each row's own
                           // history
  int64_t first_slot = 0;  // first slot for this step's keys and values
  const Sequences& rows;   // which rows belong to which sentence; like memory_sequences for
                           // decoders only
  const Sequences& memory_sequences;
};

// One layer. The opening comment has the formulas.
class TransformerLayer {
 public:
  TransformerLayer(const Scope& scope, const TransformerLayerOptions& options);
  TransformerLayer(TransformerLayer&& other) noexcept;
  ~TransformerLayer();

  // x: [tokens, hidden]. Returns the same shape, or [n, hidden] for n output rows. Keeps the
  // tensors that the context's recompute policy requires.
  Tensor Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  // Returns dx from dy and adds to d_memory (decoders). Frees the tensors that Forward kept.
  Tensor Backward(const Tensor& dy, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);

  // Frees the tensors that Forward kept.
  void Release();

  // Allocates memory for the keys and values of `slots` positions and, in decoders, computes those
  // of the encoder's output. Call it once per batch of sentences.
  void StartDecoding(const Tensor& memory, int64_t slots, LayerCache& cache, Context& ctx);
  // x: [rows, hidden], one position for each row.
  Tensor ForwardStep(const Tensor& x, const StepInputs& inputs, LayerCache& cache, Context& ctx);

 private:
  enum class Kind { kSelfAttention, kCrossAttention, kFeedForward };
  struct Sublayer {
    Kind kind;
    std::unique_ptr<LayerNorm> norm;
    uint32_t site;
    Tensor input;  // of the block, unless it is recomputed
  };

  Tensor ForwardRows(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  Tensor BackwardRows(const Tensor& dy, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);
  Tensor ForwardSublayers(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  AttentionInputs SelfAttentionInputs(const Tensor& x, const LayerInputs& inputs) const;
  Tensor ForwardBlock(Kind kind, const Tensor& x, const LayerInputs& inputs, Context& ctx);
  void BackwardBlock(Kind kind, const Tensor& x, const Tensor& d_out, bool accumulate_dx,
                     Tensor& dx, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);
  Tensor StepBlock(Kind kind, const Tensor& x, const StepInputs& inputs, LayerCache& cache,
                   Context& ctx);
  // Adds bias, dropout and residual to a block's result and, with post-norm, applies the layer
  // norm.
  Tensor FinishSublayer(Sublayer& sublayer, const Tensor& result, const Tensor& residual,
                        const Tensor& row_numbers, Context& ctx);
  Tensor BackwardSublayer(size_t i, const Tensor& dy, const LayerInputs& inputs, Tensor& d_memory,
                          Context& ctx);
  // The input of sublayer i's block in forward.
  Tensor BlockInput(size_t i, Context& ctx);
  const Linear& OutputOf(Kind kind) const;

  TransformerLayerOptions options_;
  std::unique_ptr<MultiHeadAttention> self_attention_;
  std::unique_ptr<MultiHeadAttention> cross_attention_;  // decoders only
  std::unique_ptr<FeedForward> feed_forward_;
  std::vector<Sublayer> sublayers_;
  // Always kept while training: the layer's input, or the selected rows of it if only those are
  // computed.
  Tensor x_;
  Tensor all_rows_;  // the whole input, if only some rows are computed
};

// The layers of a stack. They are alike, except for what first_norm, whole_every and whole_theta
// say.
struct TransformerStackOptions {
  TransformerLayerOptions layer;
  int num_layers = 6;
  std::string_view layers_name = "layers";
  // False: the first layer has no attention_norm, because its input comes from a norm already.
  bool first_norm = true;
  // If positive, layers 0, n, 2n, ... see whole sequences, whatever layer.window is, and their
  // theta is whole_theta (Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional
  // Encoder" (2024), section 2.1.2).
  int whole_every = 0;
  float whole_theta = 0.0f;
  int64_t max_length = 512;  // with rotary positions: length of the longest sequence
  // True if backward begins with this stack, so that its last segment need not be recomputed.
  bool backward_follows = true;
};

// The options of layer i of a stack.
TransformerLayerOptions LayerOptionsOf(const TransformerStackOptions& stack, int i);

// Layers one after another.
//
// Recompute::kEveryK (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4)
// splits a stack into segments of k layers and keeps each segment's input. Before backward goes
// through a segment, it runs the segment's forward again, which then keeps everything. If backward
// starts directly after this stack's forward, the last segment is kept instead of run again.
class TransformerStack {
 public:
  // Layer i has the scope layers.i, or the name in the options.
  TransformerStack(const Scope& scope, const TransformerStackOptions& options);
  ~TransformerStack();

  // x: [tokens, hidden]. Returns the same shape, or [n, hidden] for n output rows.
  Tensor Forward(const Tensor& x, const LayerInputs& inputs, Context& ctx);
  // Returns dx from dy and adds to d_memory (decoders). Frees the tensors that Forward kept.
  Tensor Backward(Tensor dy, const LayerInputs& inputs, Tensor& d_memory, Context& ctx);

  size_t size() const { return layers_.size(); }
  // Layer i, from 0.
  TransformerLayer& layer(size_t i) { return *layers_[i]; }

 private:
  // The inputs of layer i: only the last layer gets output rows.
  LayerInputs InputsOf(size_t i, const LayerInputs& inputs, const Context& ctx);
  // True if the segment of layers that starts at `begin` is the last one and is kept.
  bool IsKept(size_t begin, size_t k) const {
    return options_.backward_follows && begin + k >= layers_.size();
  }

  TransformerStackOptions options_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::vector<std::unique_ptr<RotaryPositions>> rotary_;  // one for each theta
  std::vector<RotaryPositions*> rotary_of_;  // of each layer; null without rotary positions
  std::vector<Tensor> segment_inputs_;       // from the last forward while training with kEveryK
};

}  // namespace dtrain

#endif  // DTRAIN_NN_TRANSFORMER_LAYER_H_
