// bias_activation_test.cc - bias, activation and dropout of a feed-forward block.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/bias_activation.h"

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/activation.h"
#include "testing/reference/dropout.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGeluErf,
                                       Activation::kGeluTanh, Activation::kTanh,
                                       Activation::kSwish};
const Shape kShapes[] = {{1, 1},   {3, 31},   {20, 33}, {35, 127},
                         {2, 129}, {2, 1023}, {70, 64}, {37, 264}};
// How far gelu's derivative may be off before it is rounded: a GPU has a short formula for 16-bit
// types, whose error is a fraction of their own.
double ToleranceOfSlopes(Activation activation, DType dtype) {
  const bool is_short =
      activation == Activation::kGeluErf && dtype != kF32 && TestDevice().type == DeviceType::kCuda;
  return is_short ? 1.2e-4 : 0.0;
}

// The inputs of the activation.
Values Inputs(const Tensor& x, const Tensor& bias) {
  Values in = ValuesOf(x);
  if (!bias) return in;
  const Values b = ValuesOf(bias);
  for (size_t e = 0; e < in.size(); ++e) in[e] += b[e % b.size()];
  return in;
}

TEST_CASE("bias, activation and dropout match the reference in both directions") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float probability = GENERATE(0.0f, 0.25f);
  const bool with_bias = GENERATE(true, false);
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  const Dropout dropout = {probability, {.seed = 5, .step = 6, .site = 7}};
  Stream stream(TestDevice());
  for (const Activation activation : kActivations) {
    for (const Shape& shape : kShapes) {
      CAPTURE(Name(dtype), probability, with_bias, static_cast<int>(margins),
              static_cast<int>(activation), shape);
      const Tensor x = Strided(Random(shape, dtype, 1, -4.0, 4.0), margins);
      const Tensor bias = with_bias ? Random({shape[1]}, dtype, 2) : Tensor();
      Tensor y = Strided(Random(shape, dtype, 3), margins);
      BiasActivationForward(x, bias, activation, dropout, y, stream);
      const Values in = Inputs(x, bias);
      Values expected = in;
      for (double& v : expected) v = reference::Activate(activation, v);
      CHECK(Difference(y, reference::ApplyDropout(dropout, expected)) < ToleranceOf(dtype));
      CHECK(MarginsUntouched(y));
      Tensor in_place = Copy(x);
      BiasActivationForward(in_place, bias, activation, dropout, in_place, stream);
      CHECK(ValuesOf(in_place) == ValuesOf(y));

      const Tensor dy = Random(shape, dtype, 4);
      Values d = reference::ApplyDropout(dropout, ValuesOf(dy));
      for (size_t e = 0; e < d.size(); ++e) {
        d[e] *= reference::ActivateDerivative(activation, in[e]);
      }
      Tensor dx = Strided(Random(shape, dtype, 5), margins);
      Tensor d_bias = Filled({shape[1]}, kF32, 1);
      BiasActivationBackward(dy, x, bias, activation, dropout, dx, d_bias, stream);
      CHECK(Difference(dx, d) < ToleranceOf(dtype));
      CHECK(MarginsUntouched(dx));
      // The derivative's error has one sign over much of its range, so a column adds it up.
      const double rows = static_cast<double>(shape[0]) * static_cast<double>(dropout.scale());
      const double allowed = 1e-5 + rows * ToleranceOfSlopes(activation, dtype);
      CHECK(Difference(d_bias, Plus(ColumnSums(d, shape[1]), Values(d_bias.elements(), 1.0))) <
            allowed);
      Tensor dy_in_place = Copy(dy);
      Tensor absent;
      BiasActivationBackward(dy_in_place, x, bias, activation, dropout, dy_in_place, absent,
                             stream);
      CHECK(ValuesOf(dy_in_place) == ValuesOf(dx));
    }
  }
}

TEST_CASE("relu's backward from the output equals that from the input") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Dropout dropout = {GENERATE(0.0f, 0.4f), {.seed = 5, .step = 6, .site = 7}};
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), shape);
    const Tensor x = Random(shape, dtype, 1);
    const Tensor bias = Random({shape[1]}, dtype, 2);
    const Tensor dy = Random(shape, dtype, 3);
    Tensor y = Copy(x);
    BiasActivationForward(x, bias, Activation::kRelu, dropout, y, stream);
    Tensor from_input = Copy(x);
    Tensor from_output = Copy(x);
    Tensor d_bias_input = Filled({shape[1]}, kF32, 4);
    Tensor d_bias_output = Filled({shape[1]}, kF32, 4);
    BiasActivationBackward(dy, x, bias, Activation::kRelu, dropout, from_input, d_bias_input,
                           stream);
    ReluBackwardFromOutput(dy, y, dropout, from_output, d_bias_output, stream);
    // As values: compilers choose the sign of a zero.
    CHECK(ValuesOf(from_input) == ValuesOf(from_output));
    CHECK(ValuesOf(d_bias_input) == ValuesOf(d_bias_output));
  }
}

TEST_CASE("activations are accurate to float32 from end to end") {
  Stream stream(TestDevice());
  constexpr int64_t kCount = 20001;
  Values grid(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    // Dense near 0, where tanh and erf are nearly linear, and out to +-12.
    const double u = static_cast<double>(i) / 10000.0 - 1.0;
    grid[static_cast<size_t>(i)] = 12.0 * u * u * u;
  }
  const Tensor x = FromValues({1, kCount}, kF32, grid);
  const Values exact = ValuesOf(x);
  // Phi is good to 2e-7 and the product is rounded once more. A GPU's exp2 and 1 / x are good to 2
  // and to 1 units in the last place, which takes Phi to 3e-7.
  const double allowed_of_x = TestDevice().type == DeviceType::kCuda ? 3.5e-7 : 2.5e-7;
  const Tensor ones = Filled({1, kCount}, kF32, 1);
  for (const Activation activation : kActivations) {
    CAPTURE(static_cast<int>(activation));
    Tensor y = Copy(x);
    Tensor dx = Copy(x);
    Tensor absent;
    BiasActivationForward(x, {}, activation, {}, y, stream);
    BiasActivationBackward(ones, x, {}, activation, {}, dx, absent, stream);
    double worst = 0.0;
    double worst_derivative = 0.0;
    for (int64_t i = 0; i < kCount; ++i) {
      const double at = exact[static_cast<size_t>(i)];
      const double allowed = allowed_of_x * std::max(std::abs(at), 1e-3);
      worst =
          std::max(worst, std::abs(ValueAt(y, i) - reference::Activate(activation, at)) / allowed);
      if (at == 0.0) continue;  // relu has no derivative there
      worst_derivative =
          std::max(worst_derivative,
                   std::abs(ValueAt(dx, i) - reference::ActivateDerivative(activation, at)));
    }
    CHECK(worst <= 1.0);
    CHECK(worst_derivative < 5e-7);
  }
}

TEST_CASE("gelu of bfloat16 is that of its inputs, rounded") {
  std::vector<float> inputs;
  BFloat16 x_of_bits;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    x_of_bits.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(x_of_bits);
    if (std::abs(value) <= 1e30f) inputs.push_back(value);
  }
  const auto count = static_cast<int64_t>(inputs.size());
  Stream stream(TestDevice());
  const Tensor x = FromValues({1, count}, DType::kBFloat16, {inputs.begin(), inputs.end()});
  const Tensor dy = Filled({1, count}, DType::kBFloat16, 1);
  Tensor y = Copy(x);
  Tensor dx = Copy(x);
  Tensor absent;
  BiasActivationForward(x, absent, Activation::kGeluErf, {}, y, stream);
  BiasActivationBackward(dy, x, absent, Activation::kGeluErf, {}, dx, absent, stream);
  const Values values = ValuesOf(y);
  const Values slopes = ValuesOf(dx);
  // Beside half a step of bfloat16: what the sum in float32 may be off, or a GPU's short formula.
  const bool on_cpu = TestDevice().type == DeviceType::kCpu;
  const double off = on_cpu ? 2e-6 : 2.6e-5;
  const double slope_off = on_cpu ? 2e-6 : ToleranceOfSlopes(Activation::kGeluErf, x.dtype());
  // A bias takes another way to the same numbers.
  BiasActivationForward(x, Filled({count}, DType::kBFloat16, 0), Activation::kGeluErf, {}, y,
                        stream);
  CHECK(ValuesOf(y) == values);
  double worst = 0;
  double worst_slope = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double exact = reference::Activate(Activation::kGeluErf, inputs[i]);
    const double slope = reference::ActivateDerivative(Activation::kGeluErf, inputs[i]);
    worst = std::max(worst, std::abs(values[i] - exact) / (std::abs(exact) / 256 + off));
    if (std::abs(inputs[i]) > 100.0f) continue;  // where the reference loses its digits
    worst_slope =
        std::max(worst_slope, std::abs(slopes[i] - slope) / (std::abs(slope) / 256 + slope_off));
  }
  CHECK(worst <= 1.0);
  CHECK(worst_slope <= 1.0);
}

TEST_CASE("derivatives far from 0 are 0 or 1") {
  Stream stream(TestDevice());
  const std::vector<float> far = {-1e30f, -1e15f, -1e12f, -1e10f, -40.0f,
                                  40.0f,  1e10f,  1e12f,  1e15f,  1e30f};
  Tensor x = Filled({1, 10}, kF32, 0);
  SetElements(far, x);
  const Tensor dy = Filled({1, 10}, kF32, 1);
  for (const Activation activation :
       {Activation::kGeluErf, Activation::kGeluTanh, Activation::kSwish}) {
    CAPTURE(static_cast<int>(activation));
    // Swish falls like exp(x): its derivative at -40 is -1.7e-16.
    const double margin = activation == Activation::kSwish ? 2e-16 : 1e-30;
    Tensor dx = Filled({1, 10}, kF32, 7);
    Tensor absent;
    BiasActivationBackward(dy, x, absent, activation, {}, dx, absent, stream);
    FinishOps();
    const Values values = ValuesOf(dx);
    for (size_t i = 0; i < far.size(); ++i) {
      CAPTURE(far[i]);
      CHECK(values[i] == Approx(far[i] > 0.0f ? 1.0 : 0.0).margin(margin));
    }
  }
}

TEST_CASE("activations pass NaN on") {
  Stream stream(TestDevice());
  const DType dtype = GENERATE(kF32, DType::kBFloat16);
  const float nan = GENERATE(std::nanf(""), -std::nanf(""));
  const Tensor x = Filled({2, 37}, dtype, nan);
  for (const Activation activation : kActivations) {
    Tensor y = Filled({2, 37}, dtype, 0);
    BiasActivationForward(x, {}, activation, {}, y, stream);
    CHECK(std::isnan(ValueAt(y, 0)));
    CHECK(std::isnan(ValueAt(y, 73)));
  }
}

TEST_CASE("bias and activation give the same bits on one and on two threads") {
  const Dropout dropout = {0.1f, {.seed = 1, .step = 2, .site = 3}};
  const auto run = [&] {
    Stream stream(TestDevice());
    const Tensor x = Random({1500, 257}, kF32, 1);
    std::vector<Tensor> out = {Copy(x), Copy(x), Filled({257}, kF32, 0)};
    BiasActivationForward(x, {}, Activation::kGeluErf, dropout, out[0], stream);
    BiasActivationBackward(x, x, {}, Activation::kGeluErf, dropout, out[1], out[2], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("a bias gradient sums all of many short rows") {
  // So many that a thread of the GPU takes more than it loads at a time.
  const Shape shape = {17001, GENERATE(8, 3)};
  CAPTURE(shape);
  Stream stream(TestDevice());
  const Tensor x = Random(shape, kF32, 1);
  const Tensor dy = Random(shape, kF32, 2);
  Tensor y = Copy(x);
  BiasActivationForward(x, {}, Activation::kRelu, {}, y, stream);
  Tensor dx = Copy(x);
  Tensor d_bias = Filled({shape[1]}, kF32, 0);
  ReluBackwardFromOutput(dy, y, {}, dx, d_bias, stream);
  Values expected = ValuesOf(dy);
  const Values in = ValuesOf(x);
  for (size_t e = 0; e < expected.size(); ++e) expected[e] *= in[e] > 0.0 ? 1.0 : 0.0;
  CHECK(ValuesOf(dx) == expected);
  CHECK(Difference(d_bias, ColumnSums(expected, shape[1])) < 1e-5);
}

TEST_CASE("bias and activation of no rows leave the gradient alone") {
  Stream stream(TestDevice());
  Tensor x = Filled({0, 8}, kF32, 0);
  Tensor d_bias = Filled({8}, kF32, 3);
  BiasActivationForward(x, {}, Activation::kTanh, {}, x, stream);
  BiasActivationBackward(x, x, {}, Activation::kTanh, {}, x, d_bias, stream);
  CHECK(ValuesOf(d_bias) == Values(8, 3.0));
}

TEST_CASE("bias and activation refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor x = Random({4, 8}, kF32, 1);
  Tensor y = Copy(x);
  const auto message = [&](const Tensor& bias, const Dropout& dropout) {
    return MessageOf(
        [&] { BiasActivationForward(x, bias, Activation::kRelu, dropout, y, stream); });
  };
  CHECK(message({}, {}) == "");
  CHECK_THAT(message(Filled({9}, kF32, 0), {}), Catch::Contains("bias is [9], must be [8]"));
  CHECK_THAT(message({}, {.probability = 1.0f, .key = {}}), Catch::Contains("must be in [0, 1)"));
  CHECK_THAT(message({}, {.probability = -0.1f, .key = {}}), Catch::Contains("must be in [0, 1)"));
  Tensor d_bias = Filled({8}, DType::kBFloat16, 0);
  CHECK_THAT(MessageOf([&] { ReluBackwardFromOutput(x, x, {}, y, d_bias, stream); }),
             Catch::Contains("d_bias is bfloat16, must be float32"));
}

}  // namespace
}  // namespace dtrain
