// rotary.h - rotary position embeddings: turns the heads of queries and keys by their positions.
// SPDX-License-Identifier: Apache-2.0
//
// Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), equation 34,
// with the pairs of columns that transformers' models use. In each head of d columns, column k and
// column k + d/2 are the two coordinates of a point, for k < d/2. A token at position p turns it:
//   (a, b) -> (a cos - b sin, b cos + a sin),  angle = p * theta^(-2k/d)
#ifndef DTRAIN_OPS_ROTARY_H_
#define DTRAIN_OPS_ROTARY_H_

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// Fills table: [max_length, head_dim], float32, contiguous, head_dim even. Row p has the cosines of
// position p's head_dim / 2 angles, then their sines. Frequencies and angles are rounded to float32
// as in transformers, because a model was trained with the rounded ones.
void FillRotaryTable(float theta, Tensor& table, Stream& stream);

// Turns every head of x in place. x: [tokens, heads * head_dim] of a floating-point type; rows may
// be strided, so that x can be the queries and keys of a fused projection. table:
// FillRotaryTable()'s, whose width is head_dim. position_ids: [tokens], int32. A position beyond
// the table throws CheckError on the CPU; on a GPU it is not checked.
void RotaryForward(const Tensor& table, const Tensor& position_ids, Tensor& x, Stream& stream);

// Turns the gradient of RotaryForward's result into that of its input, in place: the same angles,
// backwards.
void RotaryBackward(const Tensor& table, const Tensor& position_ids, Tensor& dx, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ROTARY_H_
