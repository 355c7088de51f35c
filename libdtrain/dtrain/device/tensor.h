// tensor.h - a typed view of device memory: pointer, shape, row stride, type, device.
// SPDX-License-Identifier: Apache-2.0
//
//   Tensor y = Empty(arena, {tokens, 3 * hidden}, DType::kFloat32);
//   Tensor keys = y.Columns(hidden, 2 * hidden);  // shares y's memory
//
// Copying a tensor copies the view, not the elements. A tensor allocated from an arena shares its
// block with its copies and views; the last of them frees it. A view of memory that somebody else
// owns (a parameter arena, a test's vector) frees nothing.
#ifndef DTRAIN_DEVICE_TENSOR_H_
#define DTRAIN_DEVICE_TENSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/dtype.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/device.h"
#include "dtrain/device/shape.h"

namespace dtrain {

class Tensor {
 public:
  Tensor() = default;
  // A view of `data`, which must outlive the tensor unless `owner` keeps it alive.
  Tensor(void* data, const Shape& shape, DType dtype, const Device& device = {},
         std::shared_ptr<std::byte> owner = nullptr)
      : data_(static_cast<std::byte*>(data)),
        shape_(shape),
        row_stride_(shape.rank() == 0 ? 1 : shape.elements() / std::max<int64_t>(shape[0], 1)),
        dtype_(dtype),
        device_(device),
        owner_(std::move(owner)) {}
  template <typename T>
  static Tensor View(T* data, const Shape& shape) {
    return {const_cast<std::remove_const_t<T>*>(data), shape, kDTypeOf<std::remove_const_t<T>>};
  }

  // False for a default-constructed tensor, which means "absent" for an op's optional argument.
  explicit operator bool() const { return data_ != nullptr; }

  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype_); }
  DType dtype() const { return dtype_; }
  const Device& device() const { return device_; }
  // Number of elements from one row (index of the first extent) to the next.
  int64_t row_stride() const { return row_stride_; }
  bool is_contiguous() const {
    return shape_.rank() == 0 || shape_[0] <= 1 || row_stride_ * shape_[0] == elements();
  }

  // Pointer to the elements; T must match dtype(). Like a pointer, a const Tensor does not make its
  // elements const.
  template <typename T>
  T* data() const {
    DT_CHECK(kDTypeOf<std::remove_const_t<T>> == dtype_)
        << "this tensor's type is " << Name(dtype_);
    return reinterpret_cast<T*>(data_);
  }
  void* raw() const { return data_; }

  // Rows [begin, end) of the first extent.
  Tensor Rows(int64_t begin, int64_t end) const;
  // Columns [begin, end) of a matrix; keeps the row stride.
  Tensor Columns(int64_t begin, int64_t end) const;
  // The same elements in another shape; must be contiguous.
  Tensor Reshape(const Shape& shape) const;

 private:
  std::byte* data_ = nullptr;
  Shape shape_;
  int64_t row_stride_ = 1;
  DType dtype_ = DType::kFloat32;
  Device device_;
  // Shared, because saved activations, their views and the caller's copy are released in any order.
  // The last one returns the block to its arena.
  std::shared_ptr<std::byte> owner_;
};

// A tensor with undefined contents from `arena`.
Tensor Empty(Arena& arena, const Shape& shape, DType dtype);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_TENSOR_H_
