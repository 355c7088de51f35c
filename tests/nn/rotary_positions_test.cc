// rotary_positions_test.cc - the shared table of rotary position embeddings.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/rotary_positions.h"

#include <cmath>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("layers share one table of angles, in float32 whatever the compute type") {
  Context ctx({}, {.compute_type = DType::kBFloat16});
  RotaryPositions positions({.max_length = 20, .head_dim = 8, .theta = 100.0f});
  const Tensor table = positions.Table(ctx);
  CHECK(positions.max_length() == 20);
  CHECK(table.shape() == Shape({20, 8}));
  REQUIRE(table.dtype() == DType::kFloat32);
  CHECK(positions.Table(ctx).raw() == table.raw());
  // Row 3, pair 1: the angle is 3 * 100^(-2/8).
  const float* const row = table.data<float>() + 3 * 8;
  CHECK(static_cast<double>(row[1]) == Approx(std::cos(3.0 / std::sqrt(10.0))));
  CHECK(static_cast<double>(row[4 + 1]) == Approx(std::sin(3.0 / std::sqrt(10.0))));
}

}  // namespace
}  // namespace dtrain
