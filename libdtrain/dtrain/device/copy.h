// copy.h - bytes between the host and a stream's device, and fills, in the stream's order.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_COPY_H_
#define DTRAIN_DEVICE_COPY_H_

#include <cstddef>

#include "dtrain/device/stream.h"

namespace dtrain {

// `host` may be reused when the call returns, which up to Staging::kMaxBytes it does without
// waiting for the stream.
void CopyToDevice(void* device, const void* host, size_t bytes, Stream& stream);
// Waits for the stream; the bytes are there when the call returns.
void CopyToHost(void* host, const void* device, size_t bytes, Stream& stream);
void CopyOnDevice(void* to, const void* from, size_t bytes, Stream& stream);

// `rows` pieces of `row_bytes`, `stride_bytes` apart, become zero.
void FillWithZeros(void* to, size_t stride_bytes, size_t row_bytes, size_t rows, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_COPY_H_
