// simd_test.h - what simd_test.cc calls in each instruction set's copy of simd_test_kernels.cc.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_BASE_SIMD_TEST_H_
#define DTRAIN_TESTS_BASE_SIMD_TEST_H_

#include <cstdint>

#include "dtrain/base/dtype.h"
#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/base/random.h"

namespace dtrain {

// y[i] = e^x[i]; rounded = 2^x by RoundedExp2(); log = log |x|; reciprocal = 1 / (1 + |x|); narrow
// = x in T; sums and maxima of x.
template <typename T>
struct SimdMathArgs {
  const float* x;
  int64_t count;
  float* y;
  float* rounded;
  float* log;
  float* reciprocal;
  T* narrow;
  float* wide;  // narrow, back in float
  float* sums;  // [count / 16]: of 16 values each
  float* maxima;
  float* row_sums;  // of kLanes values each, of whole squares of them
  int64_t* lanes;   // receives kLanes
};

struct SimdDrawArgs {
  RandomKey key;
  uint64_t first;
  int64_t count;                         // draws, or blocks of scores
  uint32_t first_row = 0, row_step = 0;  // rows of 1000 draws
  int64_t row = 0;                       // of scores; 0 draws rows
  uint16_t* draws;
  int64_t* padding;  // receives kDrawPadding
};

DT_DECLARE_CPU_KERNEL(SimdMath, SimdMathArgs<T>);
DT_DECLARE_CPU_KERNEL(SimdDraw, SimdDrawArgs);

}  // namespace dtrain

#endif  // DTRAIN_TESTS_BASE_SIMD_TEST_H_
