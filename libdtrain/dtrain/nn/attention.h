// attention.h - multi-head attention as a layer: projections around the attention op.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_ATTENTION_H_
#define DTRAIN_NN_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"
#include "dtrain/ops/attention.h"

namespace dtrain {

struct MultiHeadAttentionOptions {
  int64_t hidden_size = 512;
  int num_heads = 8;
  float dropout = 0.0f;  // of the attention probabilities
  bool causal = false;
  bool cross = false;     // cross-attention: keys and values come from `memory`, not from x
  bool with_bias = true;  // of all projections
  int window = 0;         // self-attention only: see AttentionOptions
  AttentionNames names = {};
  Initializer weights = Initializer::XavierUniform();
};

// The input of attention. x: [query tokens, hidden]. memory: [key tokens, hidden], the source of
// keys and values in cross-attention. In self-attention memory is absent, or x is a subset of its
// rows.
struct AttentionInputs {
  Tensor x;
  const Sequences& queries;
  Tensor memory;
  const Sequences& keys;
  // If present, queries and keys are turned by their positions; without memory only. See
  // ops/rotary.h for the table, [max_length, head_dim], and position_ids, [tokens].
  Tensor rotary_table = {};
  Tensor position_ids = {};
};

// Multi-head attention (Vaswani et al. 2017, section 3.2.2). The output projection's bias is not
// added here; the caller's next op adds it. Parameters: those of options.names.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const Scope& scope, const MultiHeadAttentionOptions& options);

  // Returns [query tokens, hidden], without output().bias().
  Tensor Forward(const AttentionInputs& inputs, Context& ctx);
  // Computes gradients from d_out, the gradient of Forward's result. dx is overwritten, or added to
  // with accumulate_dx; it may share memory with d_out. d_memory is added to in cross-attention and
  // overwritten otherwise. Accumulates all parameter gradients except that of output()'s bias.
  void Backward(const AttentionInputs& inputs, const Tensor& d_out, bool accumulate_dx, Tensor& dx,
                Tensor& d_memory, Context& ctx);
  const Linear& output() const { return output_; }
  // Frees the tensors that Forward kept.
  void Release();

  // Incremental decoding, self-attention: one position per row. Writes the keys and values of x:
  // [rows, hidden] to slots [first_slot, first_slot + rows) of keys_values: [slots, 2 * hidden].
  // Then row r attends to the slots slots[r, :].
  Tensor ForwardSelfStep(const Tensor& x, const Tensor& slots, int64_t first_slot,
                         Tensor& keys_values, Context& ctx);
  // Incremental decoding, cross-attention: computes the memory's keys and values, once per batch.
  Tensor ProjectMemory(const Tensor& memory, Context& ctx);
  // One step over ProjectMemory()'s result. `queries` says which rows of x belong to which
  // sentence.
  Tensor ForwardCrossStep(const Tensor& x, const Sequences& queries, const Tensor& keys_values,
                          const Sequences& keys, Context& ctx);

 private:
  AttentionOptions OpOptions(const Sequences& queries, Context& ctx) const;
  bool is_apart(const AttentionInputs& inputs) const { return static_cast<bool>(inputs.memory); }
  // Queries and keys, or their gradients, in a result of input_.
  Tensor QueriesAndKeys(const Tensor& projected) const {
    return projected.Columns(0, 2 * options_.hidden_size);
  }

  MultiHeadAttentionOptions options_;
  uint32_t site_;
  std::optional<Linear> input_;  // q, k and v as one product; self-attention only
  // Used in cross-attention. Otherwise they are parts of input_, or absent if that is a single
  // parameter.
  std::optional<Linear> query_, key_value_;
  Linear output_;
  AttentionSaved saved_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_ATTENTION_H_
