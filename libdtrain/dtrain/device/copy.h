// copy.h - copies and fills between host and device, in a stream's order.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_COPY_H_
#define DTRAIN_DEVICE_COPY_H_

#include <cstddef>

#include "dtrain/device/stream.h"

namespace dtrain {

// Copies host memory to the device. `host` may be reused when the call returns. Up to
// Staging::kMaxBytes the call does not wait for the stream.
void CopyToDevice(void* device, const void* host, size_t bytes, Stream& stream);
// Copies device memory to the host and waits for the stream. The bytes have arrived when the call
// returns.
void CopyToHost(void* host, const void* device, size_t bytes, Stream& stream);
void CopyOnDevice(void* to, const void* from, size_t bytes, Stream& stream);

// Sets `rows` pieces of `row_bytes` to zero. Each piece starts `stride_bytes` after the previous
// one.
void FillWithZeros(void* to, size_t stride_bytes, size_t row_bytes, size_t rows, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_COPY_H_
