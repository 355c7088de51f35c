// first_token.h - each sequence's first row, which stands for the sequence in classifiers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_FIRST_TOKEN_H_
#define DTRAIN_NN_FIRST_TOKEN_H_

#include <cstdint>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// x: [tokens, hidden] to [sequences, hidden]: Devlin et al. 2019 ("BERT"), section 3. No sequence
// is empty.
Tensor FirstToken(const Tensor& x, const Sequences& sequences, Context& ctx);

// `count` sequences of one token each.
Sequences OneTokenEach(int64_t count);

// The first row of each sequence as a layer's only output. `one_each` is OneTokenEach() of as many,
// where ops find its offsets on the device, and the first rows' numbers if the batch has such.
OutputRows FirstTokenRows(const Sequences& sequences, const Sequences& one_each, Context& ctx);

// dx: [tokens, hidden], zero but in the first rows, from dy: [sequences, hidden].
Tensor FirstTokenBackward(const Tensor& dy, const Sequences& sequences, Context& ctx);

}  // namespace dtrain

#endif  // DTRAIN_NN_FIRST_TOKEN_H_
