// embedding.h - token embeddings plus position embeddings, and their gradient.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_EMBEDDING_H_
#define DTRAIN_OPS_EMBEDDING_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

struct EmbeddingOptions {
  float scale = 1.0f;    // factor of the token's row; sqrt(hidden) in translation models
  int32_t zero_id = -1;  // this id (the start symbol) embeds as zeros and gets no gradient
  Dropout dropout;
};

// out[t] = dropout(scale * table[ids[t]] + positions[position_ids[t]]). ids, position_ids:
// [tokens], int32; table: [vocab, hidden]; positions: [max_length, hidden] or absent; out: [tokens,
// hidden]. table, positions and out have one type. An id out of range throws CheckError on the CPU;
// on a GPU it is not checked.
void EmbeddingForward(const Tensor& ids, const Tensor& position_ids, const Tensor& table,
                      const Tensor& positions, const EmbeddingOptions& options, Tensor& out,
                      Stream& stream);

// Accumulates into d_table: [vocab, hidden] and, if not absent, d_positions: [max_length, hidden],
// both float32. Tokens are added in order, whatever the number of threads. d_out: [tokens, hidden].
void EmbeddingBackward(const Tensor& d_out, const Tensor& ids, const Tensor& position_ids,
                       const EmbeddingOptions& options, Tensor& d_table, Tensor& d_positions,
                       Stream& stream);

// Fills table: [max_length, hidden] of a floating-point type with sinusoidal positions: sin in the
// first half of the columns and cos in the second, with angle(p, i) = p / 10000^(2 i / hidden)
// (Vaswani et al. 2017, section 3.5, with MarianMTModel's order of columns). hidden is even.
void FillSinusoids(Tensor& table, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_EMBEDDING_H_
