// tensor.h - typed views of device memory, and copies of them from and to the host.
// SPDX-License-Identifier: Apache-2.0
//
//   const Tensor y = NewTensor({8, 3 * 64}, DType::kFloat32);
//   const Tensor keys = y.Columns(64, 128);  // [8, 64]; shares y's memory
//
// Copying a tensor copies the view, not the elements. A tensor allocated from an arena shares its
// block with its copies and views; the last of them frees it. A view of memory that somebody else
// owns (a parameter arena, a test's vector) frees nothing.
#ifndef DTRAIN_DEVICE_TENSOR_H_
#define DTRAIN_DEVICE_TENSOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/dtype.h"
#include "dtrain/device/device.h"

namespace dtrain {

class Arena;
class Stream;

// The extents of a tensor, at most four, by value.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    DT_CHECK_LE(rank_, kMaxRank);
    for (int i = 0; i < rank_; ++i) {
      DT_CHECK_GE(dims[static_cast<size_t>(i)], 0);
      dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
    }
  }

  int rank() const { return rank_; }
  // Extent i; a negative i counts from the end.
  int64_t operator[](int i) const {
    if (i < 0) i += rank_;
    DT_CHECK(i >= 0 && i < rank_) << "dimension " << i << " of a shape of rank " << rank_;
    return dims_[static_cast<size_t>(i)];
  }
  // Product of the extents; 1 for rank 0.
  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= dims_[static_cast<size_t>(i)];
    return product;
  }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  friend bool operator==(const Shape&, const Shape&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    out << '[';
    for (int i = 0; i < shape.rank_; ++i) out << (i == 0 ? "" : ", ") << shape[i];
    return out << ']';
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// A view: pointer, shape, row stride, type and device.
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
  // Extent i; a negative i counts from the end.
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

// A tensor with undefined contents from `arena` (device/arena.h).
Tensor Empty(Arena& arena, const Shape& shape, DType dtype);

// A tensor with undefined contents that owns its memory, for use without an arena. The memory is
// freed with the last copy of the tensor; on a GPU this waits for the GPU.
Tensor NewTensor(const Shape& shape, DType dtype, const Device& device = {});

// Copies. Tensors are contiguous, and the shapes and types of both sides match, else CheckError.

namespace internal {
// `elements` elements of `type` from and to host memory.
void UploadElements(const void* values, int64_t elements, DType type, Tensor& to, Stream& stream);
void DownloadElements(const Tensor& from, DType type, void* values, Stream& stream);
}  // namespace internal

// Copies `values` to the tensor `to`. `values` may be reused when the call returns.
template <typename T>
void Upload(std::span<const T> values, Tensor& to, Stream& stream) {
  internal::UploadElements(values.data(), static_cast<int64_t>(values.size()), kDTypeOf<T>, to,
                           stream);
}

// Returns the elements of `from`, after waiting for the stream. T must match from.dtype().
template <typename T>
std::vector<T> Download(const Tensor& from, Stream& stream) {
  std::vector<T> values(static_cast<size_t>(from.elements()));
  internal::DownloadElements(from, kDTypeOf<T>, values.data(), stream);
  return values;
}

// Returns the tensor in host memory: a copy, or `tensor` itself if it is there already. Waits for
// the stream.
Tensor ToHost(const Tensor& tensor, Stream& stream);

// Copies `from` to `to`, both on the stream's device.
void CopyTensor(const Tensor& from, Tensor& to, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_TENSOR_H_
