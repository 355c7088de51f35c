// scale_values.h - factors before and after a reduction, and identity elements of reductions.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SCALE_VALUES_H_
#define DTRAIN_COMM_INTERNAL_SCALE_VALUES_H_

#include <cstdint>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

// Multiplies in place. Integers are multiplied as doubles, then truncated towards zero and limited
// to the range of their type.
void Scale(void* data, int64_t count, DType dtype, double factor);

// Fills with the identity element of `op`: reducing it changes no other rank's result.
void FillWithIdentity(void* data, int64_t count, DType dtype, ReduceOp op);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SCALE_VALUES_H_
