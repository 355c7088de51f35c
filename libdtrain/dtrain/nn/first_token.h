// first_token.h - the first row of each sequence, which represents the sequence in classifiers.
// SPDX-License-Identifier: Apache-2.0
//
//   const Tensor x = NewTensor({8, 64}, ctx.compute_type(), ctx.device());
//   const Tensor first = FirstToken(x, Sequences({0, 5, 8}), ctx);  // [2, 64]: rows 0 and 5
#ifndef DTRAIN_NN_FIRST_TOKEN_H_
#define DTRAIN_NN_FIRST_TOKEN_H_

#include <cstdint>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// x: [tokens, hidden]. Returns [sequences, hidden] (Devlin et al. 2019, "BERT", section 3). No
// sequence may be empty.
Tensor FirstToken(const Tensor& x, const Sequences& sequences, Context& ctx);

// Returns `count` sequences of one token each.
Sequences OneTokenEach(int64_t count);

// Selects the first row of each sequence as a layer's only output. `one_each` is OneTokenEach()
// with the same count; it must have device offsets, and the first rows' numbers if the batch has
// numbers.
OutputRows FirstTokenRows(const Sequences& sequences, const Sequences& one_each, Context& ctx);

// Returns dx: [tokens, hidden] from dy: [sequences, hidden]. Only the first rows are not zero.
Tensor FirstTokenBackward(const Tensor& dy, const Sequences& sequences, Context& ctx);

}  // namespace dtrain

#endif  // DTRAIN_NN_FIRST_TOKEN_H_
