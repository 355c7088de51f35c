// combine.h - element-wise reduction of several ranks' elements, as a tree over the ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COMBINE_H_
#define DTRAIN_COMM_INTERNAL_COMBINE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

// out[i] = op(sources[0][i], sources[1][i], ...), taken pair by pair as in ((0 1) (2 3)) ((4 5) 6).
// So reducing within hosts first gives the same bits if each host has two, four, ... ranks. 16-bit
// floats are combined in float and rounded once. kAverage adds, then divides by `divisor`. `out`
// may be one of the sources. If `copy` is not null it gets the same elements, through StreamCopy()
// with `copy_past_caches`.
void Combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
             int divisor, std::byte* out, std::byte* copy = nullptr, bool copy_past_caches = false);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COMBINE_H_
