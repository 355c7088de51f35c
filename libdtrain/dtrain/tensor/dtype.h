// dtype.h - element types, their sizes and names, and the 16-bit floats on the host.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TENSOR_DTYPE_H_
#define DTRAIN_TENSOR_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dtrain {

enum class DType { kFloat32, kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kUint8 };

// bfloat16: the upper half of a float. Conversion rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x0040u
                                        : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// IEEE binary16, as stored; the compiler converts.
using Float16 = _Float16;

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "float64";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
    case DType::kInt32:
      return "int32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kUint8:
      return "uint8";
  }
  return "?";
}

// The DType of a C++ type: kDTypeOf<float> == DType::kFloat32.
template <typename T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "no DType for this type");
  return DType::kUint8;
}();
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUint8;

}  // namespace dtrain

#endif  // DTRAIN_TENSOR_DTYPE_H_
