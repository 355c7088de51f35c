// scale_values_test.cc - factors on every kind of number, and identity elements.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/scale_values.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

TEST_CASE("a factor on integers truncates towards zero and stays in the range of the type") {
  std::vector<int32_t> values{7, -7, std::numeric_limits<int32_t>::max(),
                              std::numeric_limits<int32_t>::min()};
  Scale(values.data(), 2, DType::kInt32, 0.5);
  CHECK(values[0] == 3);
  CHECK(values[1] == -3);
  Scale(values.data() + 2, 2, DType::kInt32, 3);
  CHECK(values[2] == std::numeric_limits<int32_t>::max());
  CHECK(values[3] == std::numeric_limits<int32_t>::min());
}

TEST_CASE("a factor on 16-bit floats is applied in float and rounded once") {
  std::vector<BFloat16> values{BFloat16(3.0f)};
  Scale(values.data(), 1, DType::kBFloat16, 0.5);
  CHECK(static_cast<float>(values[0]) == 1.5f);
}

TEST_CASE("an identity element leaves every other value as it is") {
  float value = 0;
  const auto identity = [&](ReduceOp op) {
    FillWithIdentity(&value, 1, DType::kFloat32, op);
    return value;
  };
  CHECK(identity(ReduceOp::kSum) == 0.0f);
  CHECK(identity(ReduceOp::kAverage) == 0.0f);
  CHECK(identity(ReduceOp::kProduct) == 1.0f);
  CHECK(identity(ReduceOp::kMin) == std::numeric_limits<float>::infinity());
  CHECK(identity(ReduceOp::kMax) == -std::numeric_limits<float>::infinity());
  int64_t bits = 0;
  FillWithIdentity(&bits, 1, DType::kInt64, ReduceOp::kBitAnd);
  CHECK(bits == -1);
}

}  // namespace
}  // namespace dtrain::internal
