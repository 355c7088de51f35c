// new_tensor.cc - allocates host memory with new, and GPU memory as a buffer.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

namespace {

// Number of bytes of the tensor, at least 1.
size_t BytesOf(const Shape& shape, DType dtype) {
  if (std::ranges::count(shape.dims(), 0) > 0) return 1;
  size_t bytes = SizeOf(dtype);
  for (const int64_t extent : shape.dims()) {
    DT_CHECK(!__builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes))
        << "the size in bytes overflows for a tensor of shape " << shape;
  }
  return bytes;
}

}  // namespace

Tensor NewTensor(const Shape& shape, DType dtype, const Device& device) {
  const size_t bytes = BytesOf(shape, dtype);
  if (device.type == DeviceType::kCpu) {
    std::shared_ptr<std::byte> owner(new std::byte[bytes], std::default_delete<std::byte[]>());
    std::byte* const data = owner.get();
    return {data, shape, dtype, device, std::move(owner)};
  }
  const auto buffer = std::make_shared<Buffer>(device, bytes);
  return {buffer->data(), shape, dtype, device, std::shared_ptr<std::byte>(buffer, buffer->data())};
}

}  // namespace dtrain
