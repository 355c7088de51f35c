// transformer_layer.h - one layer of an encoder, decoder or language model, post-norm or pre-norm.
// SPDX-License-Identifier: Apache-2.0
//
// Each sublayer f (self-attention, cross-attention in decoders, feed-forward) is wrapped as
//   post-norm: y = LayerNorm(x + dropout(f(x)))      Vaswani et al. 2017, section 3.1
//   pre-norm:  y = x + dropout(f(LayerNorm(x)))      Xiong et al. 2020, figure 1b
// By default parameters are named as in MarianMTModel: self_attn, self_attn_layer_norm,
// encoder_attn, encoder_attn_layer_norm, fc1, fc2, final_layer_norm.
#ifndef DTRAIN_NN_TRANSFORMER_LAYER_H_
#define DTRAIN_NN_TRANSFORMER_LAYER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dtrain/nn/attention.h"
#include "dtrain/nn/feed_forward.h"
#include "dtrain/nn/layer_norm.h"

namespace dtrain {

// Names of the layer's parameters below its scope.
struct LayerNames {
  std::string_view self_attention = "self_attn";
  AttentionNames attention = {};  // below self_attention and encoder_attn
  std::string_view attention_norm = "self_attn_layer_norm";
  std::string_view fc1 = "fc1";
  std::string_view fc2 = "fc2";
  std::string_view final_norm = "final_layer_norm";
};

struct TransformerLayerOptions {
  int64_t hidden_size = 512;
  int64_t ffn_size = 2048;
  int num_heads = 8;
  Activation activation = Activation::kRelu;
  bool pre_norm = false;
  float layer_norm_epsilon = 1e-5f;
  float dropout = 0.1f;             // of each sublayer's output
  float attention_dropout = 0.0f;   // of the attention probabilities
  float activation_dropout = 0.0f;  // after the activation
  bool causal = false;              // self-attention sees no later tokens, as in language models
  bool decoder = false;             // causal self-attention, followed by cross-attention
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
};

// Caches of one decoder layer or causal layer during incremental decoding.
struct LayerCache {
  AttentionCache self;
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

class TransformerLayer {
 public:
  TransformerLayer(const Scope& scope, const TransformerLayerOptions& options);

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

}  // namespace dtrain

#endif  // DTRAIN_NN_TRANSFORMER_LAYER_H_
