// reduce_cpu.cc - column sums and sums of all elements on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/reduce_kernel.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void ColumnSumsKernel(const ColumnSumsArgs& args) {
  ClearFloats(args.sums, args.columns);
  int64_t r = args.row_begin;
  // Four rows at a time, so that the sums are loaded and stored once for four rows.
  for (; r + 4 <= args.row_end; r += 4) {
    const T* const x0 = Row<T>(args.x, r);
    const T* const x1 = Row<T>(args.x, r + 1);
    const T* const x2 = Row<T>(args.x, r + 2);
    const T* const x3 = Row<T>(args.x, r + 3);
    ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
      const Vec sum =
          (Load(x0 + c, lanes) + Load(x1 + c, lanes)) + (Load(x2 + c, lanes) + Load(x3 + c, lanes));
      Store(args.sums + c, Load(args.sums + c, lanes) + sum, lanes);
    });
  }
  for (; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.x, r);
    ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
      Store(args.sums + c, Load(args.sums + c, lanes) + Load(x + c, lanes), lanes);
    });
  }
}

template <typename T>
void AddBlockSumsKernel(const AddBlockSumsArgs& args) {
  ForLanes(args.column_begin, args.column_end, [&](int64_t c, auto lanes) {
    Vec sum = Load(args.sums + c, lanes);
    for (int64_t b = 0; b < args.blocks; ++b) {
      sum += Load(args.partials + b * args.stride + c, lanes);
    }
    Store(args.sums + c, sum, lanes);
  });
}

template <typename T>
void SumKernel(const SumArgs& args) {
  const T* const x = static_cast<const T*>(args.x);
  DoubleVec sum[2] = {};
  ForLanes(0, args.n, [&](int64_t i, auto lanes) {
    sum[(i / kLanes) & 1] += __builtin_convertvector(Load(x + i, lanes), DoubleVec);
  });
  *args.sum = HorizontalSum(sum[0] + sum[1]);
}

template <typename T>
void SumOfSquaresKernel(const SumOfSquaresArgs& args) {
  DoubleVec sum{};
  IntVec broken{};
  ForLanes(0, args.n, [&](int64_t i, auto lanes) {
    const Vec value = Load(args.x + i, lanes);
    const DoubleVec wide = __builtin_convertvector(value, DoubleVec);
    sum += wide * wide;
    // An exponent of all ones means NaN or infinity. A true comparison is -1.
    broken -= (reinterpret_cast<IntVec>(value) & 0x7f800000) == 0x7f800000;
  });
  int64_t count = 0;
  for (int lane = 0; lane < kLanes; ++lane) count += broken[lane];
  args.out[0] = HorizontalSum(sum);
  args.out[1] = static_cast<double>(count);
}

template void ColumnSumsKernel<float>(const ColumnSumsArgs&);
template void ColumnSumsKernel<BFloat16>(const ColumnSumsArgs&);
template void AddBlockSumsKernel<float>(const AddBlockSumsArgs&);
template void SumKernel<float>(const SumArgs&);
template void SumKernel<BFloat16>(const SumArgs&);
template void SumOfSquaresKernel<float>(const SumOfSquaresArgs&);

}  // namespace dtrain::DT_CPU_ISA
