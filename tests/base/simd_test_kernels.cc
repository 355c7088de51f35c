// simd_test_kernels.cc - runs the functions of base/internal/simd.h over arrays.
// SPDX-License-Identifier: Apache-2.0
#include "base/simd_test.h"
#include "dtrain/base/internal/simd.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void SimdMath(const SimdMathArgs<T>& args) {
  int64_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    const Vec x = Load(args.x + i);
    Store(args.y + i, Exp(x));
    Store(args.rounded + i, RoundedExp2(x));
    Store(args.log + i, Log(Abs(x)));
    Store(args.reciprocal + i, Reciprocal(1.0f + Abs(x)));
    Store(args.narrow + i, x);
    Store(args.wide + i, Load(args.narrow + i));
  }
  const int64_t left = args.count - i;
  const Vec x = LoadPartial(args.x + i, left);
  StorePartial(args.y + i, Exp(x), left);
  StorePartial(args.rounded + i, RoundedExp2(x), left);
  StorePartial(args.log + i, Log(Abs(x)), left);
  StorePartial(args.reciprocal + i, Reciprocal(1.0f + Abs(x)), left);
  StorePartial(args.narrow + i, x, left);
  StorePartial(args.wide + i, LoadPartial(args.narrow + i, left), left);
  for (int64_t block = 0; block < args.count / 16; ++block) {
    args.sums[block] = 0;
    args.maxima[block] = HorizontalMax(Load(args.x + 16 * block));
    for (int64_t j = 0; j < 16; j += kLanes) {
      const Vec part = Load(args.x + 16 * block + j);
      args.sums[block] += HorizontalSum(part);
      const float maximum = HorizontalMax(part);
      if (maximum > args.maxima[block]) args.maxima[block] = maximum;
    }
  }
  *args.lanes = kLanes;
  for (int64_t row = 0; (row + kLanes) * kLanes <= args.count; row += kLanes) {
    Vec rows[kLanes];
    for (int64_t r = 0; r < kLanes; ++r) rows[r] = Load(args.x + (row + r) * kLanes);
    Store(args.row_sums + row, HorizontalSums(rows));
  }
}

template <typename T>
void SimdDraw(const SimdDrawArgs& args) {
  *args.padding = kDrawPadding;
  if (args.row == 0) {
    DrawDropout(args.key, args.first, args.count, args.draws);
  } else {
    DrawScores(args.key, args.first_row, args.row_step, 1000, args.first, args.count, args.row,
               args.draws);
  }
}

template void SimdMath<float>(const SimdMathArgs<float>&);
template void SimdMath<BFloat16>(const SimdMathArgs<BFloat16>&);
template void SimdDraw<float>(const SimdDrawArgs&);

}  // namespace dtrain::DT_CPU_ISA
