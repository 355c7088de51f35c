// layer_norm_test.cc - layer norm and its fusion with bias, dropout and residual.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/layer_norm.h"

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/dropout.h"
#include "testing/reference/layer_norm.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr float kEpsilon = 1e-5f;

struct Size {
  int64_t rows, columns;
};
// Odd widths, and whole pieces of eight: up to 256, 512, 768 and 1024 columns and wider.
const Size kSizes[] = {{1, 1},   {3, 31},  {5, 33},   {20, 127}, {35, 129}, {2, 1023}, {67, 64},
                       {7, 256}, {5, 264}, {11, 512}, {9, 768},  {2, 1024}, {3, 1032}};

// In rows of their own, or between margins that leave the rows' alignment or not.
enum class Layout { kPlain, kAlignedMargins, kOddMargins };
Tensor InLayout(Layout layout, const Tensor& x) {
  if (layout == Layout::kPlain) return Copy(x);
  return layout == Layout::kOddMargins ? Strided(x) : Strided(x, Margins::kAligned);
}
bool MarginsUntouched(Layout layout, const Tensor& x) {
  return layout == Layout::kPlain || dtrain::testing::MarginsUntouched(x);
}

// x as dropout, bias and residual leave it.
Values SumOf(const Values& x, const Values& bias, const Values& residual, const Dropout& dropout) {
  Values sum = x;
  for (size_t e = 0; e < sum.size(); ++e) sum[e] += bias[e % bias.size()];
  return Plus(reference::ApplyDropout(dropout, sum), residual);
}

TEST_CASE("layer norm forward matches the reference") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Layout layout = GENERATE(Layout::kPlain, Layout::kAlignedMargins, Layout::kOddMargins);
  Stream stream(TestDevice());
  for (const auto& [rows, columns] : kSizes) {
    CAPTURE(rows, columns, Name(dtype), static_cast<int>(layout));
    const Tensor x = InLayout(layout, Random({rows, columns}, dtype, 1));
    const Tensor gamma = Random({columns}, kF32, 2);
    const Tensor beta = Random({columns}, kF32, 3);
    Tensor y = InLayout(layout, Random({rows, columns}, dtype, 4));
    Tensor mean = Filled({rows}, kF32, 0);
    Tensor rstd = Filled({rows}, kF32, 0);
    LayerNormForward(x, gamma, beta, kEpsilon, y, mean, rstd, stream);
    const auto expected = reference::LayerNorm(ValuesOf(x), ValuesOf(gamma), ValuesOf(beta),
                                               static_cast<double>(kEpsilon));
    CHECK(Difference(y, expected.y) < ToleranceOf(dtype));
    CHECK(Difference(mean, expected.mean) < 1e-6);
    CHECK(Difference(rstd, expected.rstd) < 1e-5);
    CHECK(MarginsUntouched(layout, y));
  }
}

TEST_CASE("layer norm statistics do not cancel far from zero") {
  Stream stream(TestDevice());
  const Tensor x = Random({1, 256}, kF32, 1, 1000.0, 1000.5);
  const Tensor gamma = Filled({256}, kF32, 1);
  const Tensor beta = Filled({256}, kF32, 0);
  Tensor y = Filled({1, 256}, kF32, 0);
  Tensor mean = Filled({1}, kF32, 0);
  Tensor rstd = Filled({1}, kF32, 0);
  LayerNormForward(x, gamma, beta, kEpsilon, y, mean, rstd, stream);
  const auto expected =
      reference::LayerNorm(ValuesOf(x), ValuesOf(gamma), ValuesOf(beta), double{kEpsilon});
  CHECK(Difference(y, expected.y) < 1e-3);
}

TEST_CASE("layer norm backward matches finite differences") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool with_residual = GENERATE(false, true);
  Stream stream(TestDevice());
  for (const auto& [rows, columns] : kSizes) {
    if (columns == 1) continue;  // the derivative is 0, the difference quotient is noise
    CAPTURE(rows, columns, Name(dtype), with_residual);
    const Tensor x = Random({rows, columns}, dtype, 1);
    const Tensor gamma = Random({columns}, kF32, 2);
    const Tensor beta = Random({columns}, kF32, 3);
    const Tensor dy = Random({rows, columns}, dtype, 4);
    const Tensor d_residual = with_residual ? Random({rows, columns}, dtype, 5) : Tensor();
    Tensor y = Filled({rows, columns}, dtype, 0);
    Tensor mean = Filled({rows}, kF32, 0);
    Tensor rstd = Filled({rows}, kF32, 0);
    LayerNormForward(x, gamma, beta, kEpsilon, y, mean, rstd, stream);
    Tensor dx = with_residual ? d_residual : dy;  // in place
    const Values dy_values = ValuesOf(dy);
    Values before = with_residual ? ValuesOf(d_residual) : Values(dy_values.size());
    Tensor d_gamma = Filled({columns}, kF32, 3);
    Tensor d_beta = Filled({columns}, kF32, -1);
    LayerNormBackward(dy, x, gamma, mean, rstd, d_residual, dx, d_gamma, d_beta, stream);

    const Values gamma_values = ValuesOf(gamma);
    const Values beta_values = ValuesOf(beta);
    const auto loss = [&](const Values& at_x, const Values& at_gamma) {
      return Dot(reference::LayerNorm(at_x, at_gamma, beta_values, double{kEpsilon}).y, dy_values);
    };
    Values expected(before.size());
    // Rows are independent: one at a time keeps the quotients cheap.
    const Values x_values = ValuesOf(x);
    for (int64_t r = 0; r < rows; ++r) {
      const auto slice = [r, width = columns](const Values& v) {
        return Values(v.begin() + r * width, v.begin() + (r + 1) * width);
      };
      const Values dy_row = slice(dy_values);
      const Values gradient = NumericGradient(
          [&](const Values& row) {
            return Dot(reference::LayerNorm(row, gamma_values, beta_values, double{kEpsilon}).y,
                       dy_row);
          },
          slice(x_values));
      std::copy(gradient.begin(), gradient.end(), expected.begin() + r * columns);
    }
    CHECK(Difference(dx, Plus(expected, before)) < ToleranceOf(dtype));
    if (rows * columns < 3000) {
      Values expected_gamma =
          NumericGradient([&](const Values& g) { return loss(x_values, g); }, gamma_values);
      for (double& v : expected_gamma) v += 3;
      CHECK(Difference(d_gamma, expected_gamma) < 1e-5);
    }
    Values expected_beta = ColumnSums(dy_values, columns);
    for (double& v : expected_beta) v -= 1;
    CHECK(Difference(d_beta, expected_beta) < 1e-5);
  }
}

TEST_CASE("the fused residual layer norm equals its parts") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float probability = GENERATE(0.0f, 0.3f);
  const Layout layout = GENERATE(Layout::kPlain, Layout::kAlignedMargins, Layout::kOddMargins);
  const Dropout dropout = {probability, {.seed = 7, .step = 3, .site = 11}};
  Stream stream(TestDevice());
  for (const auto& [rows, columns] : kSizes) {
    CAPTURE(rows, columns, Name(dtype), probability, static_cast<int>(layout));
    const Tensor x = Random({rows, columns}, dtype, 1);
    const Tensor bias = Random({columns}, dtype, 2);
    const Tensor residual = Random({rows, columns}, dtype, 3);
    const Tensor gamma = Random({columns}, kF32, 4);
    const Tensor beta = Random({columns}, kF32, 5);
    Tensor sum = InLayout(layout, x);
    Tensor y = Filled({rows, columns}, dtype, 0);
    Tensor mean = Filled({rows}, kF32, 0);
    Tensor rstd = Filled({rows}, kF32, 0);
    ResidualLayerNormForward(x, bias, residual, dropout, gamma, beta, kEpsilon, sum, y, mean, rstd,
                             stream);
    const Values expected_sum = SumOf(ValuesOf(x), ValuesOf(bias), ValuesOf(residual), dropout);
    CHECK(Difference(sum, expected_sum) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(layout, sum));
    // The statistics are of the sum as stored.
    const auto expected =
        reference::LayerNorm(ValuesOf(sum), ValuesOf(gamma), ValuesOf(beta), double{kEpsilon});
    CHECK(Difference(y, expected.y) < ToleranceOf(dtype));

    Tensor in_place = InLayout(layout, x);
    Tensor y_again = Copy(y);
    ResidualLayerNormForward(in_place, bias, residual, dropout, gamma, beta, kEpsilon, in_place,
                             y_again, mean, rstd, stream);
    CHECK(SameBits(y, y_again));

    // Backward: plain layer norm's gradient, then dropout's.
    const Tensor dy = Random({rows, columns}, dtype, 6);
    Tensor plain_dx = Copy(x);
    Tensor plain_gamma = Filled({columns}, kF32, 0);
    Tensor plain_beta = Filled({columns}, kF32, 0);
    LayerNormBackward(dy, sum, gamma, mean, rstd, {}, plain_dx, plain_gamma, plain_beta, stream);
    Tensor d_sum = Copy(dy);
    Tensor dx = InLayout(layout, x);
    Tensor d_bias = Filled({columns}, kF32, 2);
    Tensor d_gamma = Filled({columns}, kF32, 0);
    Tensor d_beta = Filled({columns}, kF32, 0);
    ResidualLayerNormBackward(d_sum, sum, gamma, mean, rstd, dropout, d_sum, dx, d_bias, d_gamma,
                              d_beta, stream);
    CHECK(SameBits(d_sum, plain_dx));
    CHECK(SameBits(d_gamma, plain_gamma));
    CHECK(SameBits(d_beta, plain_beta));
    const Values expected_dx = reference::ApplyDropout(dropout, ValuesOf(d_sum));
    CHECK(Difference(dx, expected_dx) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(layout, dx));
    Values expected_bias = ColumnSums(expected_dx, columns);
    for (double& v : expected_bias) v += 2;
    // d_bias sums what d_sum holds before it is rounded.
    CHECK(Difference(d_bias, expected_bias) <
          ToleranceOf(dtype) * std::sqrt(static_cast<double>(rows)));
  }
}

TEST_CASE("without dropout dx may be d_sum and the bias may be absent") {
  Stream stream(TestDevice());
  const Tensor x = Random({40, 96}, kF32, 1);
  const Tensor gamma = Random({96}, kF32, 2);
  const Tensor mean = Random({40}, kF32, 3);
  const Tensor rstd = Random({40}, kF32, 4, 0.5, 1.0);
  const Tensor dy = Random({40, 96}, kF32, 5);
  Tensor d_sum = Copy(x);
  Tensor dx = Copy(x);
  Tensor d_bias = Filled({96}, kF32, 0);
  Tensor d_gamma = Filled({96}, kF32, 0);
  Tensor d_beta = Filled({96}, kF32, 0);
  ResidualLayerNormBackward(dy, x, gamma, mean, rstd, {}, d_sum, dx, d_bias, d_gamma, d_beta,
                            stream);
  CHECK(SameBits(d_sum, dx));
  Tensor both = Copy(x);
  Tensor absent;
  ResidualLayerNormBackward(dy, x, gamma, mean, rstd, {}, both, both, absent, d_gamma, d_beta,
                            stream);
  CHECK(SameBits(both, dx));
  const Dropout dropout = {0.1f, {}};
  CHECK_THAT(MessageOf([&] {
               ResidualLayerNormBackward(dy, x, gamma, mean, rstd, dropout, both, both, absent,
                                         d_gamma, d_beta, stream);
             }),
             Catch::Contains("must not share memory"));
}

TEST_CASE("an absent beta counts as zeros, and its gradient is left out") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Layout layout = GENERATE(Layout::kPlain, Layout::kAlignedMargins, Layout::kOddMargins);
  const Dropout dropout = {0.25f, {.seed = 7, .step = 3, .site = 11}};
  Stream stream(TestDevice());
  for (const auto& [rows, columns] : kSizes) {
    CAPTURE(rows, columns, Name(dtype), static_cast<int>(layout));
    const Tensor gamma = Random({columns}, kF32, 2);
    // Forward and backward, plain and fused; the gradients of gamma, beta and the bias come last.
    const auto run = [&](const Tensor& beta, Tensor d_beta) {
      const Tensor x = InLayout(layout, Random({rows, columns}, dtype, 1));
      const Tensor dy = InLayout(layout, Random({rows, columns}, dtype, 4));
      std::vector<Tensor> out;
      for (int i = 0; i < 6; ++i) out.push_back(Filled({rows, columns}, dtype, 0));
      Tensor mean = Filled({rows}, kF32, 0);
      Tensor rstd = Filled({rows}, kF32, 0);
      Tensor d_bias = Filled({columns}, kF32, 1);
      Tensor d_gamma = Filled({columns}, kF32, 2);
      LayerNormForward(x, gamma, beta, kEpsilon, out[0], mean, rstd, stream);
      LayerNormBackward(dy, x, gamma, mean, rstd, x, out[1], d_gamma, d_beta, stream);
      ResidualLayerNormForward(x, {}, dy, dropout, gamma, beta, kEpsilon, out[2], out[3], mean,
                               rstd, stream);
      ResidualLayerNormBackward(dy, out[2], gamma, mean, rstd, dropout, out[4], out[5], d_bias,
                                d_gamma, d_beta, stream);
      out.insert(out.end(), {d_bias, d_gamma});
      return out;
    };
    Tensor d_beta = Filled({columns}, kF32, 3);
    const std::vector<Tensor> zeros = run(Filled({columns}, kF32, 0), d_beta);
    const std::vector<Tensor> absent = run({}, {});
    for (size_t i = 0; i < zeros.size(); ++i) {
      CAPTURE(i);
      CHECK(Difference(absent[i], ValuesOf(zeros[i])) < ToleranceOf(absent[i].dtype()));
    }
    CHECK(ValuesOf(d_beta) != Values(d_beta.elements(), 3.0));
  }
}

TEST_CASE("layer norm gives the same bits on one and on two threads") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Dropout dropout = {0.1f, {.seed = 1, .step = 2, .site = 3}};
  const auto run = [&] {
    Stream stream(TestDevice());
    // Two threads need work; a GPU's order shows in a few rows.
    const int64_t rows = TestDevice().type == DeviceType::kCpu ? 1500 : 100;
    const Shape shape = {rows, 257};
    const Tensor x = Random(shape, dtype, 1);
    const Tensor gamma = Random({257}, kF32, 2);
    std::vector<Tensor> out = {Copy(x), Copy(x), Filled({rows}, kF32, 0), Filled({rows}, kF32, 0)};
    ResidualLayerNormForward(x, {}, x, dropout, gamma, gamma, kEpsilon, out[0], out[1], out[2],
                             out[3], stream);
    for (int i = 0; i < 2; ++i) out.push_back(Copy(x));
    for (int i = 0; i < 3; ++i) out.push_back(Filled({257}, kF32, 0));
    ResidualLayerNormBackward(x, out[0], gamma, out[2], out[3], dropout, out[4], out[5], out[6],
                              out[7], out[8], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) {
    CAPTURE(i);
    CHECK(SameBits(one[i], two[i]));
  }
}

TEST_CASE("layer norm of many short rows sums all of them") {
  // So many that a warp or thread of the GPU takes several.
  const int64_t rows = 9001;
  const int64_t columns = GENERATE(8, 5);
  Stream stream(TestDevice());
  CAPTURE(columns);
  const Tensor x = Random({rows, columns}, kF32, 1);
  const Tensor ones = Filled({columns}, kF32, 1);
  Tensor y = Copy(x);
  Tensor mean = Filled({rows}, kF32, 0);
  Tensor rstd = Filled({rows}, kF32, 0);
  LayerNormForward(x, ones, ones, kEpsilon, y, mean, rstd, stream);
  const auto expected =
      reference::LayerNorm(ValuesOf(x), ValuesOf(ones), ValuesOf(ones), double{kEpsilon});
  CHECK(Difference(y, expected.y) < 1e-4);  // a row of five may have a large rstd
  const Tensor dy = Random({rows, columns}, kF32, 2);
  Tensor d_sum = Copy(x);
  Tensor dx = Copy(x);
  Tensor d_bias = Filled({columns}, kF32, 0);
  Tensor d_gamma = Filled({columns}, kF32, 0);
  Tensor d_beta = Filled({columns}, kF32, 0);
  const Dropout dropout = {0.5f, {.seed = 1}};
  ResidualLayerNormBackward(dy, x, ones, mean, rstd, dropout, d_sum, dx, d_bias, d_gamma, d_beta,
                            stream);
  Values products = ValuesOf(dy);
  for (size_t e = 0; e < products.size(); ++e) products[e] *= expected.y[e] - 1.0;
  CHECK(Difference(d_gamma, ColumnSums(products, columns)) < 1e-4);
  CHECK(Difference(d_beta, ColumnSums(ValuesOf(dy), columns)) < 1e-4);
  CHECK(Difference(d_bias, ColumnSums(ValuesOf(dx), columns)) < 1e-4);
  CHECK(Difference(dx, reference::ApplyDropout(dropout, ValuesOf(d_sum))) < 1e-6);
}

TEST_CASE("layer norm of no rows leaves the gradients alone") {
  Stream stream(TestDevice());
  Tensor x = Filled({0, 8}, kF32, 0);
  const Tensor gamma = Filled({8}, kF32, 1);
  Tensor rows = Filled({0}, kF32, 0);
  Tensor d_bias = Filled({8}, kF32, 3);
  Tensor d_gamma = Filled({8}, kF32, 4);
  Tensor d_beta = Filled({8}, kF32, 5);
  ResidualLayerNormForward(x, {}, x, {}, gamma, gamma, kEpsilon, x, x, rows, rows, stream);
  ResidualLayerNormBackward(x, x, gamma, rows, rows, {}, x, x, d_bias, d_gamma, d_beta, stream);
  CHECK(ValuesOf(d_bias) == Values(8, 3.0));
  CHECK(ValuesOf(d_gamma) == Values(8, 4.0));
  CHECK(ValuesOf(d_beta) == Values(8, 5.0));
}

TEST_CASE("layer norm refuses shapes and types that do not fit") {
  Stream stream(TestDevice());
  const Tensor x = Random({4, 8}, kF32, 1);
  const Tensor gamma = Filled({8}, kF32, 1);
  Tensor y = Copy(x);
  Tensor rows = Filled({4}, kF32, 0);
  const auto message = [&](const Tensor& in, const Tensor& scale, Tensor out) {
    return MessageOf(
        [&] { LayerNormForward(in, scale, gamma, kEpsilon, out, rows, rows, stream); });
  };
  CHECK(message(x, gamma, y) == "");
  CHECK_THAT(message(x, Filled({7}, kF32, 1), y),
             Catch::Contains("LayerNormForward: gamma is [7], must be [8]"));
  CHECK_THAT(message(x, Filled({8}, DType::kBFloat16, 1), y),
             Catch::Contains("gamma is bfloat16, must be float32"));
  CHECK_THAT(message(x, gamma, Filled({4, 8}, DType::kBFloat16, 1)),
             Catch::Contains("y is bfloat16, must be float32"));
  CHECK_THAT(message(Filled({8}, kF32, 0), gamma, y), Catch::Contains("x is [8]"));
  CHECK_THAT(message(Filled({4, 8}, DType::kFloat64, 0), gamma, Filled({4, 8}, DType::kFloat64, 0)),
             Catch::Contains("no kernel for float64 on " + DeviceName(TestDevice())));
}

}  // namespace
}  // namespace dtrain
