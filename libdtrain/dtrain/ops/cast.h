// cast.h - copies between floating types, fills, elementwise sums and copies of rows.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_CAST_H_
#define DTRAIN_OPS_CAST_H_

#include <cstdint>
#include <span>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// y = x, converted to y's type and rounded to nearest even. Same shape; rows may be strided.
void Cast(const Tensor& x, Tensor& y, Stream& stream);
// Sets every byte to 0. x is contiguous.
void Zero(Tensor& x, Stream& stream);
// Sets elements [begin, end) of each range to 0. x: [elements], float32, contiguous.
struct ElementRange {
  int64_t begin = 0, end = 0;
};
void ZeroRanges(Tensor& x, std::span<const ElementRange> ranges, Stream& stream);
// x *= factor, for a contiguous float32 tensor.
void Scale(Tensor& x, float factor, Stream& stream);
// y += x, with the same shape and type; rows may be strided.
void AddTo(const Tensor& x, Tensor& y, Stream& stream);
// average = decay * average + (1 - decay) * x: an exponential moving average of contiguous float32
// tensors. decay: [1], float32; 1 leaves the average unchanged, bit for bit.
void MovingAverage(const Tensor& x, const Tensor& decay, Tensor& average, Stream& stream);
// out[i] = x[rows[i]]; rows: [n], int32; x: [m, columns], out: [n, columns], one type.
void GatherRows(const Tensor& x, const Tensor& rows, Tensor& out, Stream& stream);
// out[rows[i]] += x[i], in the order of i. Shapes and types as for GatherRows, with x and out
// swapped.
void ScatterAddRows(const Tensor& x, const Tensor& rows, Tensor& out, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_CAST_H_
