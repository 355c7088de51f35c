// attention.h - multi-head attention as a layer: projections around the attention op.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_ATTENTION_H_
#define DTRAIN_NN_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/attention.h"

namespace dtrain {

// What the projections are called below the layer's scope.
struct AttentionNames {
  std::string_view query = "q_proj";
  std::string_view key = "k_proj";
  std::string_view value = "v_proj";
  std::string_view output = "out_proj";
};

struct MultiHeadAttentionOptions {
  int64_t hidden_size = 512;
  int num_heads = 8;
  float dropout = 0.0f;  // on the probabilities
  bool causal = false;
  bool cross = false;  // keys and values come from the memory, not from x
  AttentionNames names = {};
  Initializer weights = Initializer::XavierUniform();
};

// What attention reads: x: [query tokens, hidden]; memory: [key tokens, hidden], which has the keys
// and values of cross-attention, and of self-attention where x is some rows of it.
struct AttentionInputs {
  Tensor x;
  const Sequences& queries;
  Tensor memory;
  const Sequences& keys;
};

// Keys and values of earlier positions while decoding, one per decoder layer.
struct AttentionCache {
  Tensor keys_values;  // [slots, 2 * hidden]
};

// Vaswani et al. 2017, section 3.2.2. The output projection's bias is left to the caller's next op.
// Parameters: those of options.names.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const Scope& scope, const MultiHeadAttentionOptions& options);

  // [query tokens, hidden], without output().bias().
  Tensor Forward(const AttentionInputs& inputs, Context& ctx);
  // From d_out, the gradient of Forward's result: dx overwritten or added to; d_memory added to
  // (cross) or overwritten. dx may share memory with d_out. Parameter gradients, except output()'s
  // bias.
  void Backward(const AttentionInputs& inputs, const Tensor& d_out, bool accumulate_dx, Tensor& dx,
                Tensor& d_memory, Context& ctx);
  const Linear& output() const { return output_; }
  // Forgets what forward kept.
  void Release();

  // Incremental decoding of one position per row. Self-attention: writes keys and values of x:
  // [rows, hidden] to cache slots [first_slot, first_slot + rows), then row r attends slots[r, :].
  Tensor ForwardSelfStep(const Tensor& x, const Tensor& slots, int64_t first_slot,
                         AttentionCache& cache, Context& ctx);
  // Cross-attention: the memory's keys and values once per batch ...
  Tensor ProjectMemory(const Tensor& memory, Context& ctx);
  // ... and one step over them; queries: which rows of x belong to which sentence.
  Tensor ForwardCrossStep(const Tensor& x, const Sequences& queries, const Tensor& keys_values,
                          const Sequences& keys, Context& ctx);

 private:
  AttentionOptions OpOptions(const Sequences& queries, Context& ctx) const;
  bool is_apart(const AttentionInputs& inputs) const { return static_cast<bool>(inputs.memory); }

  MultiHeadAttentionOptions options_;
  uint32_t site_;
  std::optional<Linear> input_;  // q, k and v in one product, self-attention only
  Linear query_, key_value_;     // of cross-attention; elsewhere parts of input_
  Linear output_;
  AttentionSaved saved_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_ATTENTION_H_
