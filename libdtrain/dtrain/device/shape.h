// shape.h - the shape of a tensor: up to four extents, by value.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_SHAPE_H_
#define DTRAIN_DEVICE_SHAPE_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "dtrain/base/check.h"

namespace dtrain {

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

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_SHAPE_H_
