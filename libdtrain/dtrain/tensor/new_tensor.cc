// new_tensor.cc - host memory from new, a GPU's from a buffer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tensor/new_tensor.h"

#include <algorithm>
#include <utility>

#include "dtrain/device/buffer.h"

namespace dtrain {

Tensor NewTensor(const Shape& shape, DType dtype, const Device& device) {
  const size_t bytes =
      std::max<size_t>(static_cast<size_t>(shape.elements()) * SizeOf(dtype), size_t{1});
  if (device.type == DeviceType::kCpu) {
    std::shared_ptr<std::byte> owner(new std::byte[bytes], std::default_delete<std::byte[]>());
    std::byte* const data = owner.get();
    return {data, shape, dtype, device, std::move(owner)};
  }
  const auto buffer = std::make_shared<Buffer>(device, bytes);
  return {buffer->data(), shape, dtype, device, std::shared_ptr<std::byte>(buffer, buffer->data())};
}

}  // namespace dtrain
