// first_token_test.cc - first rows of sequences, and the gradient that mirrors them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/first_token.h"

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

TEST_CASE("the first token of each sequence is gathered, and its gradient goes back there") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
  const int64_t hidden = GENERATE(1, 31, 64);
  Context ctx({}, {.compute_type = dtype});
  const Sequences sequences({0, 3, 4, 9});
  const Tensor x = Random({9, hidden}, dtype, 1);
  const Tensor y = FirstToken(x, sequences, ctx);
  REQUIRE(y.shape() == Shape({3, hidden}));
  const Tensor dx = FirstTokenBackward(y, sequences, ctx);
  REQUIRE(dx.shape() == x.shape());
  for (int64_t row = 0; row < 9; ++row) {
    const bool is_first = row == 0 || row == 3 || row == 4;
    for (int64_t c = 0; c < hidden; ++c) {
      CHECK(ValueAt(dx, row * hidden + c) == (is_first ? ValueAt(x, row * hidden + c) : 0.0));
    }
  }
}

TEST_CASE("an empty sequence has no first token") {
  Context ctx;
  const Tensor x = Filled({2, 4}, DType::kFloat32, 1.0);
  CHECK_THAT(MessageOf([&] {
               FirstToken(x, Sequences({0, 2, 2}), ctx);
             }),
             Catch::Contains("sequence 1 has no first token"));
}

}  // namespace
}  // namespace dtrain
