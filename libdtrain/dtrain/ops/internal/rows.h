// rows.h - what the elementwise kernels take: rows as raw pointers, and a dropout ready to draw.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ROWS_H_
#define DTRAIN_OPS_INTERNAL_ROWS_H_

#include <cstdint>

#include "dtrain/base/random.h"

namespace dtrain {

// A matrix of the kernel's element type, or absent (data is null). Plain data only: the kernels are
// compiled several times and share no functions.
struct Rows {
  void* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next
};

// ops/dropout.h's Dropout with the arithmetic done.
struct DropoutDraw {
  bool on = false;
  RandomKey key;
  const uint32_t* device_step = nullptr;  // on a GPU alone, else null
  const int32_t* row_numbers = nullptr;   // [rows], or null: 0, 1, ...
  uint32_t threshold = 0;                 // draws below it are dropped
  float scale = 1.0f;
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ROWS_H_
