// wire_format.h - rounds float32 values to the wire type and widens them again.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/base/dtype.h"

namespace dtrain::internal {

// wire_type: bfloat16 or float16. On the wire float16 values are divided by the number of ranks
// (distributed/gradient_reducer.h says why).
void RoundToWire(const float* from, int64_t count, DType wire_type, int ranks, std::byte* to);
void WidenFromWire(const std::byte* from, int64_t count, DType wire_type, int ranks, float* to);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_WIRE_FORMAT_H_
