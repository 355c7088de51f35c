// tensor.cc - views of tensors.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/tensor.h"

#include <array>
#include <memory>
#include <span>
#include <utility>

#include "dtrain/device/arena.h"

namespace dtrain {

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  DT_CHECK(0 <= begin && begin <= end && end <= dim(0))
      << "rows [" << begin << ", " << end << ") of " << shape_;
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < shape_.rank(); ++i) dims[static_cast<size_t>(i)] = shape_[i];
  dims[0] = end - begin;
  Tensor rows = *this;
  rows.shape_ = Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape_.rank())));
  rows.data_ += static_cast<size_t>(begin * row_stride_) * SizeOf(dtype_);
  return rows;
}

Tensor Tensor::Columns(int64_t begin, int64_t end) const {
  DT_CHECK_EQ(shape_.rank(), 2);
  DT_CHECK(0 <= begin && begin <= end && end <= dim(1))
      << "columns [" << begin << ", " << end << ") of " << shape_;
  Tensor columns = *this;
  columns.shape_ = {dim(0), end - begin};
  columns.data_ += static_cast<size_t>(begin) * SizeOf(dtype_);
  return columns;
}

Tensor Tensor::Reshape(const Shape& shape) const {
  DT_CHECK_EQ(shape.elements(), elements());
  DT_CHECK(is_contiguous()) << "only a contiguous tensor can be reshaped";
  return {data_, shape, dtype_, device_, owner_};
}

Tensor Empty(Arena& arena, const Shape& shape, DType dtype) {
  std::shared_ptr<std::byte> block =
      arena.Allocate(static_cast<size_t>(shape.elements()) * SizeOf(dtype));
  void* const data = block.get();
  return {data, shape, dtype, arena.device(), std::move(block)};
}

}  // namespace dtrain
