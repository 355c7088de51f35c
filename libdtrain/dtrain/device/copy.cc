// copy.cc - memcpy and memset, on the CPU or on a CUDA stream.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/copy.h"

#include <cstring>

#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/staging.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {

void CopyOnDevice(void* to, const void* from, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if constexpr (kWithCuda) {
    if (stream.device().type == DeviceType::kCuda) {
      return cuda::Copy(stream.device(), to, from, bytes, stream.handle());
    }
  }
  std::memcpy(to, from, bytes);
}

void CopyToDevice(void* device, const void* host, size_t bytes, Stream& stream) {
  if (stream.device().type == DeviceType::kCuda && bytes > 0 && bytes <= Staging::kMaxBytes) {
    return stream.staging().Copy(device, host, bytes, stream);
  }
  // For host memory that is not pinned, this call returns only after the bytes were read.
  CopyOnDevice(device, host, bytes, stream);
}

void CopyToHost(void* host, const void* device, size_t bytes, Stream& stream) {
  CopyOnDevice(host, device, bytes, stream);
  stream.Synchronize();
}

void FillWithZeros(void* to, size_t stride_bytes, size_t row_bytes, size_t rows, Stream& stream) {
  if (rows == 0 || row_bytes == 0) return;
  if constexpr (kWithCuda) {
    if (stream.device().type == DeviceType::kCuda) {
      return cuda::FillRows(stream.device(), to, stride_bytes, 0, row_bytes, rows, stream.handle());
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    std::memset(static_cast<std::byte*>(to) + row * stride_bytes, 0, row_bytes);
  }
}

}  // namespace dtrain
