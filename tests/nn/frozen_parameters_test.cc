// frozen_parameters_test.cc - adapters against the layer that has their sum as its weight.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/frozen_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/nn/linear.h"
#include "dtrain/optim/adam.h"
#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace testing;

constexpr int64_t kRows = 37;
constexpr int64_t kIn = 24;
constexpr int64_t kOut = 40;
constexpr std::array<std::string_view, 3> kNames = {"query", "key", "value"};

LowRankOptions OptionsFor(std::vector<std::string> targets) {
  return {.rank = 3, .alpha = 6.0f, .targets = std::move(targets)};
}

void Set(Parameter& parameter, const Values& values) {
  ForElements(parameter.master(), [&](int64_t at, int64_t i) {
    WriteElement(parameter.master(), at, values[static_cast<size_t>(i)]);
  });
}

Values RandomValues(const Shape& shape, uint32_t site) {
  return ValuesOf(Random(shape, DType::kFloat32, site, -0.5, 0.5));
}

// c[rows, columns] = factor * a^T b with a: [depth, rows] and b: [depth, columns].
Values ProductOfTransposed(const Values& a, const Values& b, int64_t depth, double factor) {
  const size_t rows = a.size() / static_cast<size_t>(depth);
  const size_t columns = b.size() / static_cast<size_t>(depth);
  Values c(rows * columns, 0.0);
  for (size_t d = 0; d < static_cast<size_t>(depth); ++d) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < columns; ++j) {
        c[r * columns + j] += factor * a[d * rows + r] * b[d * columns + j];
      }
    }
  }
  return c;
}

Values Transposed(const Values& a, int64_t columns) {
  const auto width = static_cast<size_t>(columns);
  Values turned(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    turned[i % width * (a.size() / width) + i / width] = a[i];
  }
  return turned;
}

// A layer of three parts, in the frozen scope if there are options.
struct Layer {
  Layer(DType dtype, const LowRankOptions& low_rank)
      : options(low_rank),
        linear(Scope(parameters, "attention").Adapted(options), kNames, kIn, kOut) {
    parameters.Allocate(TestDevice(), dtype, /*seed=*/2);
    uint32_t site = 20;
    for (Parameter* parameter : parameters.all()) {
      Set(*parameter, RandomValues(parameter->shape(), ++site));
    }
    parameters.RefreshComputeWeights();
  }

  struct Results {
    Values y, dx;
  };
  Results Run(DType dtype) {
    Context ctx(TestDevice(), {.compute_type = dtype});
    ctx.set_training(true);
    const Tensor x = Random({kRows, kIn}, dtype, 11, -1.0, 1.0);
    const Tensor dy = Random({kRows, linear.out()}, dtype, 12, -1.0, 1.0);
    const Tensor y = linear.Forward(x, ctx);
    Tensor dx = ctx.Empty({kRows, kIn});
    parameters.BeginGradients(ctx.stream());
    linear.Backward(x, dy, {}, dx, ctx);
    parameters.SettleGradients();
    ctx.stream().Synchronize();
    return {ValuesOf(y), ValuesOf(dx)};
  }

  Parameter& Find(const std::string& name) { return *parameters.Find("attention." + name); }

  LowRankOptions options;
  ParameterSet parameters;
  Linear linear;
};

TEST_CASE("an adapted layer computes with the sum of its matrices, and so do its gradients") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  Layer adapted(dtype, OptionsFor({"query", "value"}));
  Layer plain(dtype, {});
  const double scale = 2.0;
  for (const std::string part : {"query", "key", "value"}) {
    Values weight = ValuesOf(adapted.Find(part + ".weight").master());
    if (part != "key") {
      const Values a = ValuesOf(adapted.Find(part + ".lora_A.weight").master());
      const Values b = ValuesOf(adapted.Find(part + ".lora_B.weight").master());
      weight = Plus(weight, ProductOfTransposed(Transposed(b, 3), a, 3, scale));
    }
    Set(plain.Find(part + ".weight"), weight);
    Set(plain.Find(part + ".bias"), ValuesOf(adapted.Find(part + ".bias").master()));
  }
  plain.parameters.RefreshComputeWeights();
  const Layer::Results got = adapted.Run(dtype);
  const Layer::Results wanted = plain.Run(dtype);
  const double unit = dtype == DType::kFloat32 ? 1e-5 : 8.0 * ToleranceOf(dtype);
  CHECK(Difference(got.y, wanted.y) <= unit);
  CHECK(Difference(got.dx, wanted.dx) <= unit);
  for (const std::string part : {"query", "value"}) {
    const Values d_weight = ValuesOf(plain.Find(part + ".weight").gradient());
    const Values a = ValuesOf(adapted.Find(part + ".lora_A.weight").master());
    const Values b = ValuesOf(adapted.Find(part + ".lora_B.weight").master());
    CHECK(Difference(ValuesOf(adapted.Find(part + ".lora_A.weight").gradient()),
                     ProductOfTransposed(b, d_weight, kOut, scale)) <= 4.0 * unit);
    CHECK(Difference(ValuesOf(adapted.Find(part + ".lora_B.weight").gradient()),
                     ProductOfTransposed(Transposed(d_weight, kIn), Transposed(a, kIn), kIn,
                                         scale)) <= 4.0 * unit);
  }
}

TEST_CASE("only adapters are trained, and only they take the memory of gradients and moments") {
  const auto dtype = GENERATE(from_range(FloatTypes()));
  Layer layer(dtype, OptionsFor({"value"}));
  REQUIRE(layer.parameters.in_backward_order().size() == 2);
  CHECK(layer.parameters.all().size() == 8);
  CHECK(FrozenOf(layer.parameters).order().size() == 6);
  CHECK(layer.parameters.size() < 256);
  CHECK(layer.parameters.num_elements() == 3 * kOut * (kIn + 1) + 3 * (kOut + kIn));
  const Values key = ValuesOf(layer.Find("key.weight").value());
  const Values value = ValuesOf(layer.Find("value.weight").value());
  const Values frozen = ValuesOf(FrozenOf(layer.parameters).weights());
  Adam adam(layer.parameters, {.weight_decay = 0.1f});
  CHECK(adam.first_moments().elements() == layer.parameters.size());
  layer.Run(dtype);
  Stream stream(TestDevice());
  adam.Step(0.01f, 1.0f, stream);
  stream.Synchronize();
  CHECK(ValuesOf(FrozenOf(layer.parameters).weights()) == frozen);
  CHECK(ValuesOf(layer.Find("key.weight").value()) == key);
  // The optimizer's step has composed the weight again.
  const Values stepped = ValuesOf(layer.Find("value.weight").value());
  CHECK(Difference(stepped, value) > 1e-3);
  layer.parameters.RefreshComputeWeights();
  CHECK(ValuesOf(layer.Find("value.weight").value()) == stepped);
}

TEST_CASE("an adapter starts as no change") {
  LowRankOptions options = OptionsFor({std::string(LowRankOptions::kAllLinear)});
  ParameterSet parameters;
  const Linear linear(Scope(parameters, "").Adapted(options), kNames, kIn, kOut);
  parameters.Allocate(TestDevice(), DType::kFloat32, /*seed=*/2);
  Parameter& weight = *parameters.Find("key.weight");
  CHECK(ValuesOf(weight.value()) == ValuesOf(weight.master()));
  const Values a = ValuesOf(parameters.Find("key.lora_A.weight")->master());
  const double bound = 1.0 / std::sqrt(static_cast<double>(kIn));
  CHECK(*std::max_element(a.begin(), a.end()) <= bound);
  CHECK(*std::max_element(a.begin(), a.end()) > 0.8 * bound);
  CHECK(FrozenOf(parameters).linears() == std::set<std::string>{"key", "query", "value"});
}

TEST_CASE("targets are whole names or their last parts") {
  const auto is_target = [](std::string_view name, std::vector<std::string> targets) {
    return IsTarget(name, targets);
  };
  CHECK(is_target("layer.0.attention.self.query", {"query"}));
  CHECK(is_target("query", {"query"}));
  CHECK(is_target("layer.0.attention.output.dense", {"key", "output.dense"}));
  CHECK(is_target("layer.0.intermediate.dense", {"all-linear"}));
  CHECK_FALSE(is_target("layer.0.intermediate.dense", {"output.dense"}));
  CHECK_FALSE(is_target("layer.0.subquery", {"query"}));
  CHECK_FALSE(is_target("layer.0.query", {}));
}

}  // namespace
}  // namespace dtrain
