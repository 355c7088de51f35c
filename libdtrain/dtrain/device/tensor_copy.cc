// tensor_copy.cc - copies of whole tensors.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {
namespace {

void CheckList(const Tensor& tensor, DType type) {
  DT_CHECK(tensor.is_contiguous());
  DT_CHECK(type == tensor.dtype()) << "this tensor's type is " << Name(tensor.dtype());
}

}  // namespace

void internal::UploadElements(const void* values, int64_t elements, DType type, Tensor& to,
                              Stream& stream) {
  CheckList(to, type);
  DT_CHECK_EQ(elements, to.elements());
  CopyToDevice(to.raw(), values, to.bytes(), stream);
}

void internal::DownloadElements(const Tensor& from, DType type, void* values, Stream& stream) {
  CheckList(from, type);
  CopyToHost(values, from.raw(), from.bytes(), stream);
}

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
