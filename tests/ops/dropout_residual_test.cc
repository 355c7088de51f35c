// dropout_residual_test.cc - bias, dropout and the residual sum.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/dropout_residual.h"

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/dropout.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
const Shape kShapes[] = {{1, 1},   {3, 31},   {20, 33}, {35, 127},
                         {2, 129}, {2, 1023}, {70, 64}, {37, 264}};
TEST_CASE("dropout and residual match the reference in both directions") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float probability = GENERATE(0.0f, 0.1f, 0.75f);
  const bool with_bias = GENERATE(true, false);
  const bool with_residual = GENERATE(true, false);
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  const Dropout dropout = {probability, {.seed = 1ull << 40, .step = 6, .site = 7}};
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), probability, with_bias, with_residual, static_cast<int>(margins), shape);
    const Tensor x = Strided(Random(shape, dtype, 1), margins);
    const Tensor bias = with_bias ? Random({shape[1]}, dtype, 2) : Tensor();
    const Tensor residual = with_residual ? Strided(Random(shape, dtype, 3), margins) : Tensor();
    Tensor out = Strided(Random(shape, dtype, 4), margins);
    DropoutResidualForward(x, bias, residual, dropout, out, stream);
    Values expected = ValuesOf(x);
    if (with_bias) {
      const Values b = ValuesOf(bias);
      for (size_t e = 0; e < expected.size(); ++e) expected[e] += b[e % b.size()];
    }
    expected = reference::ApplyDropout(dropout, expected);
    if (with_residual) expected = Plus(expected, ValuesOf(residual));
    CHECK(Difference(out, expected) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(out));
    Tensor in_place = Copy(x);
    DropoutResidualForward(in_place, bias, residual, dropout, in_place, stream);
    CHECK(ValuesOf(in_place) == ValuesOf(out));
    if (with_residual) {
      in_place = Copy(residual);
      DropoutResidualForward(x, bias, in_place, dropout, in_place, stream);
      CHECK(ValuesOf(in_place) == ValuesOf(out));
    }

    const Tensor d_out = Random(shape, dtype, 5);
    const Values d = reference::ApplyDropout(dropout, ValuesOf(d_out));
    Tensor dx = Strided(Random(shape, dtype, 6), margins);
    Tensor d_bias = Filled({shape[1]}, kF32, 1);
    DropoutResidualBackward(d_out, dropout, dx, d_bias, stream);
    CHECK(Difference(dx, d) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(dx));
    CHECK(Difference(d_bias, Plus(ColumnSums(d, shape[1]), Values(d_bias.elements(), 1.0))) < 1e-5);
    in_place = Copy(d_out);
    Tensor absent;
    DropoutResidualBackward(in_place, dropout, in_place, absent, stream);
    CHECK(ValuesOf(in_place) == ValuesOf(dx));
  }
}

TEST_CASE("dropout keeps the share it should and scales it to keep the mean") {
  const float probability = GENERATE(0.1f, 0.5f, 0.9f);
  CAPTURE(probability);
  Stream stream(TestDevice());
  constexpr int64_t kCount = 1 << 20;
  const Tensor ones = Filled({kCount / 1024, 1024}, kF32, 1);
  Tensor out = Copy(ones);
  DropoutResidualForward(ones, {}, {}, {probability, {.seed = 3}}, out, stream);
  int64_t kept = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double value = ValueAt(out, i);
    kept += value != 0.0;
    if (value != 0.0 && std::abs(value * (1.0 - double{probability}) - 1.0) > 1e-6) {
      FAIL("a kept 1 became " << value);
    }
  }
  const double expected = (1.0 - double{probability}) * kCount;
  // Five standard deviations of a binomial count.
  CHECK(std::abs(static_cast<double>(kept) - expected) <
        5.0 * std::sqrt(expected * double{probability}));
}

TEST_CASE("without dropout the gradient is a copy and its column sums") {
  const Shape shape = {17001, GENERATE(8, 3)};
  CAPTURE(shape);
  Stream stream(TestDevice());
  Tensor d_out = Random(shape, kF32, 1);
  const Values d = ValuesOf(d_out);
  Tensor dx = Filled(shape, kF32, 0);
  Tensor d_bias = Filled({shape[1]}, kF32, 0);
  DropoutResidualBackward(d_out, {}, dx, d_bias, stream);
  CHECK(ValuesOf(dx) == d);
  CHECK(Difference(d_bias, ColumnSums(d, shape[1])) < 1e-5);
  Tensor again = Filled({shape[1]}, kF32, 0);
  DropoutResidualBackward(d_out, {}, d_out, again, stream);
  CHECK(ValuesOf(d_out) == d);
  CHECK(SameBits(again, d_bias));
}

TEST_CASE("other steps and sites draw other elements") {
  Stream stream(TestDevice());
  const Tensor ones = Filled({16, 64}, kF32, 1);
  const auto draw = [&](const RandomKey& key) {
    Tensor out = Copy(ones);
    DropoutResidualForward(ones, {}, {}, {0.5f, key}, out, stream);
    return out;
  };
  const Tensor first = draw({.seed = 1, .step = 1, .site = 1});
  CHECK(SameBits(first, draw({.seed = 1, .step = 1, .site = 1})));
  CHECK(!SameBits(first, draw({.seed = 2, .step = 1, .site = 1})));
  CHECK(!SameBits(first, draw({.seed = 1, .step = 2, .site = 1})));
  CHECK(!SameBits(first, draw({.seed = 1, .step = 1, .site = 2})));
}

TEST_CASE("dropout and residual give the same bits on one and on two threads") {
  const Dropout dropout = {0.1f, {.seed = 1, .step = 2, .site = 3}};
  const auto run = [&] {
    Stream stream(TestDevice());
    const Tensor x = Random({1500, 257}, kF32, 1);
    std::vector<Tensor> out = {Copy(x), Copy(x), Filled({257}, kF32, 0)};
    DropoutResidualForward(x, {}, x, dropout, out[0], stream);
    DropoutResidualBackward(x, dropout, out[1], out[2], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("dropout and residual refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor x = Random({4, 8}, kF32, 1);
  Tensor out = Copy(x);
  const auto message = [&](const Tensor& bias, const Tensor& residual) {
    return MessageOf([&] { DropoutResidualForward(x, bias, residual, {}, out, stream); });
  };
  CHECK(message({}, {}) == "");
  CHECK_THAT(message(Filled({8}, DType::kBFloat16, 0), {}),
             Catch::Contains("bias is bfloat16, must be float32"));
  CHECK_THAT(message({}, Filled({3, 8}, kF32, 0)),
             Catch::Contains("residual is [3, 8], must be [4, 8]"));
  Tensor d_bias = Filled({7}, kF32, 0);
  CHECK_THAT(MessageOf([&] { DropoutResidualBackward(x, {}, out, d_bias, stream); }),
             Catch::Contains("DropoutResidualBackward: d_bias is [7]"));
}

}  // namespace
}  // namespace dtrain
