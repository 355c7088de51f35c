// scale_values.cc - scaling and identity elements for every data type.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/scale_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace dtrain::internal {
namespace {

// Calls body.operator()<T>() with the C++ type of `dtype`.
template <typename Body>
void DispatchType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kInt32:
      return body.template operator()<int32_t>();
    case DType::kInt64:
      return body.template operator()<int64_t>();
    case DType::kUint8:
      return body.template operator()<uint8_t>();
  }
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Truncates towards zero and limits to the range of the type.
template <typename T>
T ScaledInteger(T value, double factor) {
  const double scaled = std::trunc(static_cast<double>(value) * factor);
  if (!(scaled > static_cast<double>(std::numeric_limits<T>::min()))) {
    return std::numeric_limits<T>::min();
  }
  if (scaled >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(scaled);
}

template <typename T>
T Identity(ReduceOp op) {
  using Limits = std::numeric_limits<std::conditional_t<kIsHalf<T>, float, T>>;
  const auto lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const auto highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return T{};
    case ReduceOp::kProduct:
      return static_cast<T>(1.0f);
    case ReduceOp::kMin:
      return static_cast<T>(highest);
    case ReduceOp::kMax:
      return static_cast<T>(lowest);
    case ReduceOp::kBitAnd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(~T{});
  }
  return T{};
}

}  // namespace

void Scale(void* data, int64_t count, DType dtype, double factor) {
  if (factor == 1) return;
  DispatchType(dtype, [&]<typename T>() {
    T* const values = static_cast<T*>(data);
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kIsHalf<T>) {
        values[i] = T(static_cast<float>(values[i]) * static_cast<float>(factor));
      } else if constexpr (std::is_integral_v<T>) {
        values[i] = ScaledInteger(values[i], factor);
      } else {
        values[i] = static_cast<T>(values[i] * static_cast<T>(factor));
      }
    }
  });
}

void FillWithIdentity(void* data, int64_t count, DType dtype, ReduceOp op) {
  DispatchType(dtype,
               [&]<typename T>() { std::fill_n(static_cast<T*>(data), count, Identity<T>(op)); });
}

}  // namespace dtrain::internal
