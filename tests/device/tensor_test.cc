// tensor_test.cc - arenas, shapes, views, packed sequences and 16-bit floats.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/device/sequences.h"
#include "dtrain/device/tensor.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("an arena gives the same addresses to the same sequence of requests") {
  const auto arena = Arena::Create({}, "test", size_t{1} << 28);
  const auto step = [&] {
    const Tensor a = Empty(*arena, {3, 5}, DType::kFloat32);
    Tensor b = Empty(*arena, {100}, DType::kFloat32);
    const void* const first = b.raw();
    b = {};
    const Tensor c = Empty(*arena, {70}, DType::kFloat32);
    CHECK(c.raw() == first);
    return std::pair(a.raw(), first);
  };
  const auto first = step();
  CHECK(arena->used() == 0);
  CHECK(step() == first);
  CHECK(arena->peak() >= 60 + 400);
  CHECK_THROWS_AS(arena->Allocate(size_t{1} << 29), std::bad_alloc);
  const auto all = arena->Allocate((size_t{1} << 28) - 1024);
  CHECK(all != nullptr);  // freed neighbours were merged
}

TEST_CASE("a shape that no memory holds is refused") {
  CHECK_THROWS_WITH(NewTensor({int64_t{1} << 61}, DType::kFloat64),
                    Catch::Contains("size in bytes overflows"));
  CHECK_THROWS_AS(NewTensor({int64_t{1} << 32, int64_t{1} << 32}, DType::kFloat32), CheckError);
  CHECK(NewTensor({int64_t{1} << 61, 0}, DType::kFloat64).elements() == 0);
}

TEST_CASE("a block outlives its arena's handle") {
  auto arena = Arena::Create({}, "test", size_t{1} << 28);
  const Tensor x = Empty(*arena, {10}, DType::kFloat32);
  arena.reset();
  x.data<float>()[9] = 1.0f;
  CHECK(x.data<float>()[9] == 1.0f);
}

TEST_CASE("views share memory and keep the row stride") {
  float values[12];
  const Tensor x = Tensor::View(values, {3, 4});
  const Tensor view = x.Columns(1, 3).Rows(1, 3);
  CHECK(view.shape() == Shape{2, 2});
  CHECK(view.row_stride() == 4);
  CHECK(view.data<float>() == values + 5);
  CHECK(!view.is_contiguous());
  CHECK_THROWS_AS(view.Reshape({4}), CheckError);
  CHECK_THROWS_AS(x.Columns(2, 5), CheckError);
  CHECK_THROWS_AS(x.data<int32_t>(), CheckError);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN") {
  CHECK(float(BFloat16(1.0f)) == 1.0f);
  CHECK(float(BFloat16(1.00390625f)) == 1.0f);       // halfway, even below
  CHECK(float(BFloat16(1.01171875f)) == 1.015625f);  // halfway, even above
  CHECK(std::isnan(float(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isinf(float(BFloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("packed sequences know their longest member and refuse decreasing offsets") {
  const Sequences sequences({0, 3, 3, 10});
  CHECK(sequences.count() == 3);
  CHECK(sequences.tokens() == 10);
  CHECK(sequences.max_length() == 7);
  CHECK(sequences.length(1) == 0);
  CHECK_THROWS_AS(Sequences({0, 4, 3}), CheckError);
  CHECK_THROWS_AS(Sequences({1, 4}), CheckError);
}

TEST_CASE("dispatch reaches the tensor's type and names what it lacks") {
  BFloat16 value;
  bool reached = false;
  DispatchFloat(Tensor::View(&value, {1}), [&]<DeviceType D, typename T>() {
    reached = D == DeviceType::kCpu && std::is_same_v<T, BFloat16>;
  });
  CHECK(reached);
  int32_t integer = 0;
  CHECK_THROWS_WITH(DispatchFloat(Tensor::View(&integer, {1}), []<DeviceType, typename>() {}),
                    Catch::Contains("no kernel for int32 on cpu"));
}

TEST_CASE("every float16 comes back from float unchanged") {
  for (uint32_t i = 0; i < 65536; ++i) {
    Float16 half;
    half.bits = static_cast<uint16_t>(i);
    const auto value = static_cast<float>(half);
    if (std::isnan(value)) {
      CHECK(((i & 0x7c00u) == 0x7c00u && (i & 0x03ffu) != 0));
      CHECK(std::isnan(static_cast<float>(Float16(value))));
    } else if (Float16(value).bits != i) {
      FAIL("float16 " << i << " comes back as " << Float16(value).bits);
    }
  }
}

TEST_CASE("float16 rounds to nearest even, also below the smallest normal number") {
  const auto [value, bits] = GENERATE(table<float, uint32_t>({
      {1.0f, 0x3c00},
      {-2.0f, 0xc000},
      {65504.0f, 0x7bff},
      {65519.99f, 0x7bff},
      {65520.0f, 0x7c00},
      {1e10f, 0x7c00},
      {-std::numeric_limits<float>::infinity(), 0xfc00},
      {1.0f + 0x1.0p-11f, 0x3c00},    // half way, down to even
      {1.0f + 0x3.0p-11f, 0x3c02},    // half way, up to even
      {1.0f + 0x1.002p-11f, 0x3c01},  // above half way
      {0x1.0p-14f, 0x0400},           // the smallest normal number
      {0x1.0p-24f, 0x0001},           // the smallest number
      {0x1.0p-25f, 0x0000},           // half of it, down to even
      {0x1.8p-24f, 0x0002},           // half way, up to even
      {0x1.ffffp-15f, 0x0400},        // up into the normal numbers
      {-0.0f, 0x8000},
  }));
  CAPTURE(value);
  CHECK(Float16(value).bits == bits);
}

}  // namespace
}  // namespace dtrain
