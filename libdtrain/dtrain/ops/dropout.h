// dropout.h - the dropout argument of ops, and how its random bits are drawn.
// SPDX-License-Identifier: Apache-2.0
//
// Each element has 16 random bits. It is kept if they are at least round(probability * 65536), and
// is then scaled by 1 / (1 - probability); otherwise it becomes 0.
//
// Element e of a row-major [rows, columns] tensor (whatever its row stride) uses 16-bit half e % 8
// (the low half of word 0 first) of Philox(key, e / 8). Forward, backward and recompute draw the
// same bits, so nothing is stored.
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
  uint32_t threshold() const { return static_cast<uint32_t>(std::lround(probability * 65536.0f)); }
  float scale() const { return 1.0f / (1.0f - probability); }
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_DROPOUT_H_
