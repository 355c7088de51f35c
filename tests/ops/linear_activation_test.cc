// linear_activation_test.cc - a linear layer and its activation against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/linear_activation.h"

#include <vector>

#include "dtrain/ops/gemm.h"
#include "dtrain/ops/gemm_tuning.h"
#include "testing/catch.h"
#include "testing/linear_activation_case.h"

namespace dtrain {
namespace {

using namespace testing;

TEST_CASE("forward and backward match the reference") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  const auto activation = GENERATE(Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh,
                                   Activation::kTanh, Activation::kSwish);
  const auto [rows, in, out, next] = GENERATE(table<int64_t, int64_t, int64_t, int64_t>(
      {{1, 1, 1, 1}, {33, 31, 40, 24}, {5, 8, 17, 9}, {129, 96, 72, 48}}));
  const LinearActivationCase test{.rows = rows,
                                  .in = in,
                                  .out = out,
                                  .next = next,
                                  .dtype = dtype,
                                  .options = {.activation = activation}};
  INFO(Name(dtype) << ", activation " << static_cast<int>(activation) << ", " << rows << " x " << in
                   << " x " << out << " x " << next);
  CHECK(ErrorsOf(test).largest() <= 1.0);
}

TEST_CASE("a bias may lie anywhere in memory") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  const auto offset = GENERATE(1, 2, 3, 4);
  const LinearActivationCase test{.rows = 33,
                                  .in = 16,
                                  .out = 40,
                                  .next = 24,
                                  .dtype = dtype,
                                  .options = {.activation = Activation::kGeluTanh},
                                  .bias_offset = offset};
  CHECK(ErrorsOf(test).largest() <= 1.0);
}

TEST_CASE("an absent bias counts as zeros, and its gradient is left out") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  const auto activation = GENERATE(Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh);
  const LinearActivationCase test{.rows = 33,
                                  .in = 31,
                                  .out = 40,
                                  .next = 24,
                                  .dtype = dtype,
                                  .options = {.activation = activation},
                                  .has_bias = false};
  CHECK(ErrorsOf(test).largest() <= 1.0);
}

TEST_CASE("dropout after the activation is that of the activation's own op") {
  const auto activation = GENERATE(Activation::kRelu, Activation::kGeluTanh);
  const LinearActivationCase test{
      .rows = 33,
      .in = 16,
      .out = 40,
      .next = 24,
      .dtype = DType::kFloat32,
      .options = {.activation = activation, .dropout = {.probability = 0.3F, .key = {1, 2, 3}}}};
  CHECK(ErrorsOf(test).largest() <= 1.0);
}

TEST_CASE("a repeated activation has the bits of the first") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  const auto activation = GENERATE(Activation::kGeluErf, Activation::kGeluTanh);
  const LinearActivationCase test{.rows = 33,
                                  .in = 31,
                                  .out = 40,
                                  .next = 24,
                                  .dtype = dtype,
                                  .options = {.activation = activation, .repeats = true}};
  Operands x(test);
  Stream stream(TestDevice());
  LinearActivationForward(x.x, x.weight, x.bias, test.options, x.saved, stream);
  const Tensor first = Copy(x.saved.after);
  x.saved.after = Filled(first.shape(), dtype, 0.0);
  RepeatActivation(x.bias, test.options, x.saved, stream);
  CHECK(SameBits(x.saved.after, first));
}

TEST_CASE("without its input to keep, an activation gives the same bits") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  const auto activation = GENERATE(Activation::kRelu, Activation::kGeluErf);
  const LinearActivationCase test{.rows = 100,
                                  .in = 64,
                                  .out = 40,
                                  .next = 24,
                                  .dtype = dtype,
                                  .options = {.activation = activation}};
  Operands x(test);
  Stream stream(TestDevice());
  LinearActivationForward(x.x, x.weight, x.bias, test.options, x.saved, stream);
  LinearActivationSaved kept;
  kept.after = Filled(x.saved.after.shape(), dtype, 0.0);
  LinearActivationForward(x.x, x.weight, x.bias, test.options, kept, stream);
  CHECK(SameBits(kept.after, x.saved.after));
}

TEST_CASE("parameter gradients accumulate, with and without a bias") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  const Tensor dy = Random({33, 24}, dtype, 1);
  const Tensor x = Random({33, 40}, dtype, 2);
  Tensor d_weight = Filled({24, 40}, DType::kFloat32, 1.0);
  Tensor d_bias = Filled({24}, DType::kFloat32, 2.0);
  LinearBackwardParameters(dy, x, {}, d_weight, d_bias, stream);
  const Values a = ValuesOf(dy);
  const Values b = ValuesOf(x);
  Values weights(24 * 40, 1.0);
  for (size_t r = 0; r < 33; ++r) {
    for (size_t o = 0; o < 24; ++o) {
      for (size_t i = 0; i < 40; ++i) weights[o * 40 + i] += a[r * 24 + o] * b[r * 40 + i];
    }
  }
  CHECK(Difference(d_weight, weights) <= 1e-5);
  CHECK(Difference(d_bias, Plus(ColumnSums(a, 24), Values(24, 2.0))) <= 1e-5);
  Tensor none;
  LinearBackwardParameters(dy, x, {}, d_weight, none, stream);
  for (double& value : weights) value = 2.0 * value - 1.0;
  CHECK(Difference(d_weight, weights) <= 1e-5);
}

TEST_CASE("tensors that do not fit are refused by name") {
  const LinearActivationCase test{.rows = 3,
                                  .in = 4,
                                  .out = 8,
                                  .next = 2,
                                  .dtype = DType::kFloat32,
                                  .options = {.activation = Activation::kGeluTanh}};
  Stream stream(TestDevice());
  const auto message = [&](const auto& change) {
    Operands x(test);
    change(x);
    return MessageOf([&] {
      LinearActivationForward(x.x, x.weight, x.bias, test.options, x.saved, stream);
      LinearActivationBackward(x.dy, x.next_weight, x.bias, test.options, x.saved, x.d_before,
                               x.d_bias, stream);
    });
  };
  const Tensor wrong = Filled({3, 5}, DType::kFloat32, 0.0);
  CHECK(message([](Operands&) {}).empty());
  CHECK_THAT(message([&](Operands& x) { x.weight = wrong; }), Catch::Contains("weight"));
  CHECK_THAT(message([&](Operands& x) { x.saved.before = Tensor(); }), Catch::Contains("before"));
  CHECK_THAT(message([&](Operands& x) { x.saved.after = wrong; }), Catch::Contains("after"));
  CHECK_THAT(message([&](Operands& x) { x.next_weight = wrong; }), Catch::Contains("next_weight"));
  CHECK_THAT(message([&](Operands& x) { x.d_before = wrong; }), Catch::Contains("d_before"));
  CHECK_THAT(message([&](Operands& x) { x.d_bias = wrong; }), Catch::Contains("d_bias"));
  CHECK_THAT(MessageOf([&] {
               Operands x(test);
               RepeatActivation(x.bias, test.options, x.saved, stream);
             }),
             Catch::Contains("requires that forward ran with options.repeats"));
}

}  // namespace
}  // namespace dtrain
