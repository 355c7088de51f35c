// tensor_copy.h - copies tensors from and to host memory, and on their device.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_TENSOR_COPY_H_
#define DTRAIN_DEVICE_TENSOR_COPY_H_

#include <span>
#include <vector>

#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// All tensors here are contiguous, and the shapes and types of both sides match.

// Copies `values` to the tensor `to`. `values` may be reused when the call returns.
template <typename T>
void Upload(std::span<const T> values, Tensor& to, Stream& stream) {
  DT_CHECK(to.is_contiguous());
  DT_CHECK_EQ(static_cast<int64_t>(values.size()), to.elements());
  CopyToDevice(to.data<T>(), values.data(), values.size_bytes(), stream);
}

// Returns the elements of `from`, after waiting for the stream.
template <typename T>
std::vector<T> Download(const Tensor& from, Stream& stream) {
  DT_CHECK(from.is_contiguous());
  std::vector<T> values(static_cast<size_t>(from.elements()));
  CopyToHost(values.data(), from.data<T>(), from.bytes(), stream);
  return values;
}

// Returns the tensor in host memory: a copy, or `tensor` itself if it is there already. Waits for
// the stream.
Tensor ToHost(const Tensor& tensor, Stream& stream);

// Copies `from` to `to`, both on the stream's device.
void CopyTensor(const Tensor& from, Tensor& to, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_TENSOR_COPY_H_
