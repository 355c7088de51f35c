// reduce.h - sums of columns, of all elements and of squares, in an order independent of threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_REDUCE_H_
#define DTRAIN_OPS_REDUCE_H_

#include <cstdint>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// sums[c] += the sum over rows of x[r, c], for example a bias gradient. x: [rows, columns]; sums:
// [columns], float32.
void AccumulateColumnSums(const Tensor& x, Tensor& sums, Stream& stream);

// total: [1], float32 or float64, becomes the sum of all elements of x, added in double.
void Sum(const Tensor& x, Tensor& total, Stream& stream);
// total: [1], float64, is increased by the sum of all elements of x.
void AccumulateSum(const Tensor& x, Tensor& total, Stream& stream);

// out: [2], float64, becomes {sum of squares, number of elements that are NaN or infinite} of a
// contiguous float32 tensor. This gives the gradient norm and the overflow test in one pass.
void SumOfSquares(const Tensor& x, Tensor& out, Stream& stream);
// out is increased by SumOfSquares() of x: for a tensor whose parts are in several places.
void AccumulateSumOfSquares(const Tensor& x, Tensor& out, Stream& stream);

// On a CPU, SumOfSquares adds the squares of blocks of this many elements, then adds the blocks in
// order.
inline constexpr int64_t kSumBlock = 32768;
// blocks: [ceil(n / kSumBlock), 2], float64, becomes the result of SumOfSquares for each block of
// kSumBlock elements of x; the last block may be shorter. CPU only. If ranks hold parts of a
// tensor, split at whole blocks, the total of their blocks has the same bits as SumOfSquares of the
// whole tensor.
void BlockSumsOfSquares(const Tensor& x, Tensor& blocks, Stream& stream);
// out: [2], float64, becomes the sum of `blocks`, added in order.
void TotalOfBlocks(const Tensor& blocks, Tensor& out);

}  // namespace dtrain

#endif  // DTRAIN_OPS_REDUCE_H_
