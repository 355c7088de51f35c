// wire_format.h - float32 values rounded to the type they travel in, and widened again.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/base/dtype.h"

namespace dtrain::internal {

// wire_type: bfloat16, or float16, whose values are divided by the number of ranks on the wire
// (distributed/gradient_reducer.h says why).
void RoundToWire(const float* from, int64_t count, DType wire_type, int ranks, std::byte* to);
void WidenFromWire(const std::byte* from, int64_t count, DType wire_type, int ranks, float* to);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_
