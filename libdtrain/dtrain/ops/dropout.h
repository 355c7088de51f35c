// dropout.h - the dropout argument of every op that has one, and how its bits are drawn.
// SPDX-License-Identifier: Apache-2.0
//
// An element is kept when its 16 random bits are at or above round(probability * 65536), and then
// scaled by 1 / (1 - probability). Element e of a row-major [rows, columns] tensor (the row stride
// does not matter) takes 16-bit half e % 8 (low half of word 0 first) of Philox(key, e / 8).
// Forward, backward and recompute draw the same bits; nothing is stored. Row r counts as row
// row_numbers[r] where there are such: a batch's part then draws what the whole batch would.
#ifndef DTRAIN_OPS_DROPOUT_H_
#define DTRAIN_OPS_DROPOUT_H_

#include <cmath>
#include <cstdint>

#include "dtrain/base/random.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct Dropout {
  float probability = 0.0f;  // of being zeroed, in [0, 1); 0 turns dropout off
  RandomKey key;
  // Where not null, in the memory of the op's GPU: the key's step, in place of key.step.
  const uint32_t* device_step = nullptr;
  Tensor row_numbers = {};  // [rows], int32, at least 0, or absent

  // Elements whose bits are below this are dropped.
  uint32_t threshold() const { return static_cast<uint32_t>(std::lround(probability * 65536.0f)); }
  float scale() const { return 1.0f / (1.0f - probability); }
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_DROPOUT_H_
