// attention.h - scaled dot-product attention over packed sequences of any lengths.
// SPDX-License-Identifier: Apache-2.0
//
// Vaswani et al., "Attention Is All You Need" (2017), equation 1, for each sequence and head:
//   P = softmax(scale Q K^T + mask),  out = dropout(P) V
// No matrix of size queries x keys is kept: backward recomputes P from the logarithm of the softmax
// denominators (Dao et al., "FlashAttention" (2022), algorithms 1 and 4).
#ifndef DTRAIN_OPS_ATTENTION_H_
#define DTRAIN_OPS_ATTENTION_H_

#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

struct AttentionOptions {
  int num_heads = 1;
  bool causal = false;  // query i of a sequence sees keys 0..i; requires as many queries as keys
  // If positive, query i of a sequence sees only keys i - window to i + window (Beltagy et al.,
  // "Longformer" (2020), section 3.1), and time grows with the window, not with the length.
  // Requires as many queries as keys, and not causal.
  int window = 0;
  float scale = 0.0f;  // 0 means 1 / sqrt(head_dim)
  // Dropout of the probabilities, drawn in blocks as dropout.h says. Queries are rows of q. If
  // dropout.row_numbers is given, a sequence's queries are numbered consecutively from its first
  // query's row number.
  Dropout dropout = {};
};

// q: [query tokens, hidden]; k, v: [key tokens, hidden]; hidden = num_heads * head_dim. Rows may be
// strided (views of a fused projection). The queries of sequence i attend to the keys of sequence
// i; a sequence with queries must have keys. out: [query tokens, hidden], q's type. log_sum_exp:
// [query tokens, num_heads], float32.
void AttentionForward(const Tensor& q, const Tensor& k, const Tensor& v,
                      const Sequences& query_sequences, const Sequences& key_sequences,
                      const AttentionOptions& options, Tensor& out, Tensor& log_sum_exp,
                      Stream& stream);

// Inputs and outputs of AttentionForward that its backward needs.
struct AttentionSaved {
  Tensor q, k, v, out, log_sum_exp;
};

// Computes dq, dk and dv from d_out: [query tokens, hidden]. The gradients have the shapes and
// types of q, k and v and are overwritten; their rows may be strided.
void AttentionBackward(const Tensor& d_out, const AttentionSaved& saved,
                       const Sequences& query_sequences, const Sequences& key_sequences,
                       const AttentionOptions& options, Tensor& dq, Tensor& dk, Tensor& dv,
                       Stream& stream);

// One step of incremental decoding. Row r attends to the cache slots slots[r, 0..length); rows of a
// beam may share slots. No dropout. q, out: [rows, hidden]; keys, values: [slots, hidden]; slots:
// [rows, length], int32.
void CachedAttention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& slots,
                     int num_heads, Tensor& out, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ATTENTION_H_
