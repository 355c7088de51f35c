// rows.h - arguments of elementwise kernels: rows as raw pointers, and prepared dropout.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ROWS_H_
#define DTRAIN_OPS_INTERNAL_ROWS_H_

#include <cstdint>

#include "dtrain/base/random.h"

namespace dtrain {

// A matrix of the kernel's element type, or absent if data is null. Plain data only, because the
// kernels are compiled several times and share no functions.
struct Rows {
  void* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next
};

// The Dropout of ops/dropout.h in the form kernels use.
struct DropoutDraw {
  bool on = false;
  RandomKey key;
  const uint32_t* device_step = nullptr;  // set on a GPU only, else null
  const int32_t* row_numbers = nullptr;   // [rows], or null for 0, 1, ...
  uint32_t threshold = 0;                 // elements whose random bits are below this are dropped
  float scale = 1.0f;
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ROWS_H_
