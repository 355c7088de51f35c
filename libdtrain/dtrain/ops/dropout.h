// dropout.h - the dropout argument of ops, and how its random bits are drawn.
// SPDX-License-Identifier: Apache-2.0
//
// Each element has 15 random bits. It is kept if they are at least round(probability * 32768), and
// is then scaled by 1 / (1 - probability); otherwise it becomes 0. 15 bits, because a GPU then
// compares two elements in one addition: the 16th bit receives the carry (device/cuda/dropout.cuh).
//
// Eight elements share a draw, the four words of Philox<kDropoutRounds>(key, number). Each has the
// lower 15 bits of half a word. Forward, backward and recompute draw the same bits, so nothing is
// stored.
//
// Element e of a row-major [rows, columns] tensor (whatever its row stride) has half e % 8 (the low
// half of word 0 first) of draw e / 8.
//
// Attention's probabilities are drawn where tensor cores leave them. In a block of 16 queries by 16
// keys, counted from the sequence's first, a lane of a warp holds queries g and g + 8 and keys 2t,
// 2t + 1, 2t + 8 and 2t + 9 (g < 8, t < 4). These eight are one draw:
//   number = (row * heads + head) mod 2^32 * 2^18 + key / 16 * 4 + t,   2t and 2t + 1 are key % 8
//   word   = 1 for query g + 8, plus 2 for keys 2t + 8 and 2t + 9
//   half   = key % 2
// where `row` is the number of query g's row: its position in the batch, or what row_numbers says
// of the sequence's first row plus its position in the sequence.
//
// If row_numbers is given, row r draws like row row_numbers[r]. A part of a batch then draws the
// same as the whole batch would.
#ifndef DTRAIN_OPS_DROPOUT_H_
#define DTRAIN_OPS_DROPOUT_H_

#include <cmath>
#include <cstdint>

#include "dtrain/base/random.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct Dropout {
  float probability = 0.0f;  // probability of being zeroed, in [0, 1); 0 turns dropout off
  RandomKey key;
  // If not null, points to the key's step in GPU memory and replaces key.step.
  const uint32_t* device_step = nullptr;
  Tensor row_numbers = {};  // [rows], int32, >= 0; may be absent

  // Elements whose random bits are below this are dropped.
  uint32_t threshold() const { return static_cast<uint32_t>(std::lround(probability * 32768.0f)); }
  float scale() const { return 1.0f / (1.0f - probability); }
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_DROPOUT_H_
