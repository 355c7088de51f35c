// tensor_copy.cc - copies of whole tensors.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/tensor_copy.h"

namespace dtrain {

Tensor ToHost(const Tensor& tensor, Stream& stream) {
  stream.Synchronize();
  if (tensor.device().type == DeviceType::kCpu) return tensor;
  DT_CHECK(tensor.is_contiguous());
  std::shared_ptr<std::byte> memory(new std::byte[tensor.bytes()],
                                    std::default_delete<std::byte[]>());
  CopyToHost(memory.get(), tensor.raw(), tensor.bytes(), stream);
  void* const data = memory.get();
  return {data, tensor.shape(), tensor.dtype(), Device{}, std::move(memory)};
}

void CopyTensor(const Tensor& from, Tensor& to, Stream& stream) {
  DT_CHECK(from.is_contiguous() && to.is_contiguous());
  DT_CHECK_EQ(from.shape(), to.shape());
  DT_CHECK_EQ(Name(from.dtype()), Name(to.dtype()));
  CopyOnDevice(to.raw(), from.raw(), from.bytes(), stream);
}

}  // namespace dtrain
