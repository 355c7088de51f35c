// dtype.h - element types with their sizes and names, and the 16-bit floats on the host.
// SPDX-License-Identifier: Apache-2.0
//
//   const float third = static_cast<float>(BFloat16(1.0f / 3.0f));  // 0.333984375
//   const size_t bytes = 1000 * SizeOf(kDTypeOf<float>);            // 4000
#ifndef DTRAIN_BASE_DTYPE_H_
#define DTRAIN_BASE_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dtrain {

// The type of the elements of a tensor.
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

// IEEE 754 binary16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits. Conversion rounds to
// nearest even; NaN stays NaN. It uses integer arithmetic because not every compiler has _Float16.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = word & 0x7fffffffu;
    uint32_t half = 0x7c00u;        // infinity, also for values that round to 2^16 or more
    if (magnitude > 0x7f800000u) {  // a NaN becomes quiet
      half = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
    } else if (magnitude < 0x38800000u) {
      // Below 2^-14. One unit in the last place of a float in [0.5, 1) is 2^-24, the same as that
      // of a subnormal half; so adding 0.5 rounds to it.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      half = std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5f);
    } else if (magnitude < 0x477ff000u) {
      half = (magnitude - kBiasDifference + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>(((word >> 16) & 0x8000u) | half);
  }
  explicit operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    uint32_t word = (magnitude << 13) + kBiasDifference;
    if (magnitude >= 0x7c00u) {
      word = (magnitude << 13) | 0x7f800000u;
    } else if (magnitude < 0x0400u) {
      word = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1.0p-24f);
    }
    return std::bit_cast<float>(sign | word);
  }

 private:
  static constexpr uint32_t kBiasDifference = (127u - 15u) << 23;
};

// Bytes of an element.
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

// For example "bfloat16".
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

#endif  // DTRAIN_BASE_DTYPE_H_
