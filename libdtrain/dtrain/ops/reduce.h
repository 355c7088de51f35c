// reduce.h - sums over rows and over everything, in an order that does not depend on threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_REDUCE_H_
#define DTRAIN_OPS_REDUCE_H_

#include <cstdint>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// sums[c] += sum over rows of x[r, c]: a bias gradient. x: [rows, columns]; sums: [columns],
// float32.
void AccumulateColumnSums(const Tensor& x, Tensor& sums, Stream& stream);

// total: [1], float32 or float64 = sum of all elements of x, summed in double.
void Sum(const Tensor& x, Tensor& total, Stream& stream);
// total: [1], float64 += the same.
void AccumulateSum(const Tensor& x, Tensor& total, Stream& stream);

// out: [2], float64 = {sum of squares, number of elements that are NaN or infinite} of a contiguous
// float32 tensor: the global gradient norm and the overflow test in one pass.
void SumOfSquares(const Tensor& x, Tensor& out, Stream& stream);

// Elements whose squares SumOfSquares adds first on a CPU; it adds these sums in their order.
inline constexpr int64_t kSumBlock = 32768;
// blocks: [ceil(n / kSumBlock), 2], float64 = the sums of each block of kSumBlock elements of x
// alone, what is left in the last one. On CPUs only. Of ranks that hold parts of a tensor, cut at
// whole blocks, they add to the bits of SumOfSquares of it all.
void BlockSumsOfSquares(const Tensor& x, Tensor& blocks, Stream& stream);
// out: [2], float64 = these sums, added in their order.
void TotalOfBlocks(const Tensor& blocks, Tensor& out);

}  // namespace dtrain

#endif  // DTRAIN_OPS_REDUCE_H_
