// reduce.h - sums over rows and over everything, in an order that does not depend on threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_REDUCE_H_
#define DTRAIN_OPS_REDUCE_H_

#include "dtrain/device/stream.h"
#include "dtrain/tensor/tensor.h"

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

}  // namespace dtrain

#endif  // DTRAIN_OPS_REDUCE_H_
