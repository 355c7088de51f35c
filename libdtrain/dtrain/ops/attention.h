// attention.h - scaled dot-product attention over packed sequences of any lengths.
// SPDX-License-Identifier: Apache-2.0
//
// Vaswani et al., "Attention Is All You Need" (2017), equation 1, per sequence s and head h:
//   P = softmax(scale Q K^T + causal mask),  out = dropout(P) V
// Nothing of size queries x keys is kept: backward recomputes P from the log of the softmax
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
  bool causal = false;  // query i of a sequence sees keys 0..i; needs equal lengths
  float scale = 0.0f;   // 0: 1 / sqrt(head_dim)
  // Element e of the probabilities: ((query's number) * num_heads + head) * 2^20 + key's position
  // in its sequence. Queries are rows of q; those of a sequence are numbered in a row from
  // what the first one has in dropout.row_numbers.
  Dropout dropout = {};
};

// q: [query tokens, hidden]; k, v: [key tokens, hidden]; hidden = num_heads * head_dim. Rows may be
// strided (views of a fused projection). Sequence i's queries attend sequence i's keys.
// out: [query tokens, hidden], q's type. log_sum_exp: [query tokens, num_heads], float32.
// A sequence with queries must have keys.
void AttentionForward(const Tensor& q, const Tensor& k, const Tensor& v,
                      const Sequences& query_sequences, const Sequences& key_sequences,
                      const AttentionOptions& options, Tensor& out, Tensor& log_sum_exp,
                      Stream& stream);

// What AttentionForward took and gave, for its backward.
struct AttentionSaved {
  Tensor q, k, v, out, log_sum_exp;
};

// Gradients dq, dk, dv (shapes and types of q, k, v; rows may be strided; overwritten) from
// d_out: [query tokens, hidden].
void AttentionBackward(const Tensor& d_out, const AttentionSaved& saved,
                       const Sequences& query_sequences, const Sequences& key_sequences,
                       const AttentionOptions& options, Tensor& dq, Tensor& dk, Tensor& dv,
                       Stream& stream);

// One step of incremental decoding: row r attends the `length` slots slots[r, 0..length) of a cache
// that rows of a beam share. No dropout.
// q, out: [rows, hidden]; keys, values: [slots, hidden]; slots: [rows, length], int32.
void CachedAttention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& slots,
                     int num_heads, Tensor& out, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ATTENTION_H_
