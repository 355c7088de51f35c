// gated_activation_test.cc - activation, gate and dropout of a gated feed-forward block.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gated_activation.h"

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
// Of y. Odd widths and whole pieces of eight, where the second half is aligned like the first and
// where it is not.
const Shape kShapes[] = {{1, 1},   {3, 31},   {20, 33}, {35, 127},
                         {2, 129}, {2, 1023}, {70, 64}, {37, 264}};

struct Halves {
  Values a, g;
};
Halves HalvesOf(const Tensor& x) {
  const int64_t columns = x.dim(1) / 2;
  return {ValuesOf(x.Columns(0, columns)), ValuesOf(x.Columns(columns, 2 * columns))};
}

// By how much gelu's own error moves a gradient: a GPU has a short formula for 16-bit types, whose
// error is a fraction of theirs (bias_activation_test.cc).
double ToleranceFor(Activation activation, DType dtype) {
  const bool is_short =
      activation == Activation::kGeluErf && dtype != kF32 && TestDevice().type == DeviceType::kCuda;
  return ToleranceOf(dtype) + (is_short ? 6e-4 : 0.0);
}

TEST_CASE("gated activations match the reference in both directions") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float probability = GENERATE(0.0f, 0.25f);
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  const Dropout dropout = {probability, {.seed = 5, .step = 6, .site = 7}};
  Stream stream(TestDevice());
  for (const Activation activation : kActivations) {
    for (const Shape& shape : kShapes) {
      CAPTURE(Name(dtype), probability, static_cast<int>(margins), Name(activation), shape);
      const Shape wide = {shape[0], 2 * shape[1]};
      const Tensor x = Strided(Random(wide, dtype, 1, -4.0, 4.0), margins);
      const auto [a, g] = HalvesOf(x);
      Tensor y = Strided(Random(shape, dtype, 3), margins);
      GatedActivationForward(x, activation, dropout, y, stream);
      Values expected = a;
      for (size_t e = 0; e < a.size(); ++e) {
        expected[e] = reference::Activate(activation, a[e]) * g[e];
      }
      CHECK(Difference(y, reference::ApplyDropout(dropout, expected)) <
            ToleranceFor(activation, dtype));
      CHECK(MarginsUntouched(y));

      const Tensor dy = Strided(Random(shape, dtype, 4), margins);
      const Values d = reference::ApplyDropout(dropout, ValuesOf(dy));
      Halves gradients = {a, g};
      for (size_t e = 0; e < a.size(); ++e) {
        gradients.a[e] = d[e] * g[e] * reference::ActivateDerivative(activation, a[e]);
        gradients.g[e] = d[e] * reference::Activate(activation, a[e]);
      }
      Tensor dx = Strided(Random(wide, dtype, 5), margins);
      GatedActivationBackward(dy, x, activation, dropout, dx, stream);
      const auto [da, dg] = HalvesOf(dx);
      CHECK(Difference(da, gradients.a) < ToleranceFor(activation, dtype));
      CHECK(Difference(dg, gradients.g) < ToleranceFor(activation, dtype));
      CHECK(MarginsUntouched(dx));
      Tensor in_place = Copy(x);
      GatedActivationBackward(dy, in_place, activation, dropout, in_place, stream);
      CHECK(ValuesOf(in_place) == ValuesOf(dx));
    }
  }
}

TEST_CASE("a gate of ones leaves the activation, and an activation of ones the gate") {
  Stream stream(TestDevice());
  Tensor x = Random({5, 26}, kF32, 1);
  const Values a = ValuesOf(x.Columns(0, 13));
  const Tensor ones = Filled({5, 13}, kF32, 1);
  ForElements(x, [&](int64_t at, int64_t i) {
    if (i % 26 >= 13) WriteElement(x, at, 1.0);
  });
  Tensor y = Filled({5, 13}, kF32, 0);
  GatedActivationForward(x, Activation::kTanh, {}, y, stream);
  Values expected = a;
  for (double& v : expected) v = std::tanh(v);
  CHECK(Difference(y, expected) < 1e-6);

  Tensor swapped = Random({5, 26}, kF32, 2);
  ForElements(swapped, [&](int64_t at, int64_t i) {
    if (i % 26 < 13) WriteElement(swapped, at, 1.0);
  });
  GatedActivationForward(swapped, Activation::kRelu, {}, y, stream);
  CHECK(ValuesOf(y) == ValuesOf(swapped.Columns(13, 26)));
}

TEST_CASE("a gated activation sees all of many short rows") {
  // So many that a thread of the GPU takes more than it loads at a time.
  const Shape shape = {17001, GENERATE(8, 3)};
  CAPTURE(shape);
  Stream stream(TestDevice());
  const Tensor x = Random({shape[0], 2 * shape[1]}, kF32, 1);
  const auto [a, g] = HalvesOf(x);
  Tensor y = Filled(shape, kF32, 0);
  GatedActivationForward(x, Activation::kRelu, {}, y, stream);
  Tensor dx = Copy(x);
  GatedActivationBackward(y, x, Activation::kRelu, {}, dx, stream);
  Values expected = a;
  Values expected_dg = a;
  for (size_t e = 0; e < a.size(); ++e) {
    const double active = std::max(a[e], 0.0);
    expected[e] = active * g[e];
    expected_dg[e] = active * active * g[e];
  }
  CHECK(Difference(y, expected) < 1e-6);
  CHECK(Difference(HalvesOf(dx).g, expected_dg) < 1e-6);
}

TEST_CASE("gated activations give the same bits on one and on two threads") {
  const Dropout dropout = {0.1f, {.seed = 1, .step = 2, .site = 3}};
  const auto run = [&] {
    Stream stream(TestDevice());
    const Tensor x = Random({1500, 258}, kF32, 1);
    std::vector<Tensor> out = {Filled({1500, 129}, kF32, 0), Copy(x)};
    GatedActivationForward(x, Activation::kGeluErf, dropout, out[0], stream);
    GatedActivationBackward(out[0], x, Activation::kGeluErf, dropout, out[1], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("a part of a batch drops the gated elements that the whole batch would drop") {
  Stream stream(TestDevice());
  const Dropout dropout = {0.5f, {.seed = 1, .step = 2, .site = 3}};
  const Tensor x = Random({6, 22}, kF32, 1, 1.0, 2.0);
  Tensor whole = Filled({6, 11}, kF32, 0);
  GatedActivationForward(x, Activation::kGeluErf, dropout, whole, stream);
  Dropout numbered = dropout;
  numbered.row_numbers = OnDevice<int32_t>({3, 4, 5}, {3});
  Tensor part = Filled({3, 11}, kF32, 0);
  GatedActivationForward(x.Rows(3, 6), Activation::kGeluErf, numbered, part, stream);
  CHECK(ValuesOf(part) == ValuesOf(whole.Rows(3, 6)));
}

TEST_CASE("gated activations refuse what does not fit") {
  Stream stream(TestDevice());
  const auto message = [&](int64_t columns, DType dtype, float probability) {
    const Tensor x = Random({4, columns}, dtype, 1);
    Tensor y = Filled({4, 8}, kF32, 0);
    return MessageOf([&] {
      GatedActivationForward(x, Activation::kGeluErf, {.probability = probability, .key = {}}, y,
                             stream);
    });
  };
  CHECK(message(16, kF32, 0.0f) == "");
  CHECK_THAT(message(8, kF32, 0.0f), Catch::Contains("x is [4, 8], must be [4, 16]"));
  CHECK_THAT(message(16, DType::kBFloat16, 0.0f), Catch::Contains("x is bfloat16"));
  CHECK_THAT(message(16, kF32, 1.0f), Catch::Contains("must be in [0, 1)"));
  Tensor narrow = Filled({4, 8}, kF32, 0);
  CHECK_THAT(MessageOf([&] {
               GatedActivationBackward(narrow, Filled({4, 16}, kF32, 0), Activation::kSwish, {},
                                       narrow, stream);
             }),
             Catch::Contains("dx is [4, 8], must be [4, 16]"));
}

}  // namespace
}  // namespace dtrain
