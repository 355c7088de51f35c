// lamb_test.cc - the LAMB update of several tensors in flat arenas.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/lamb.h"

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;

struct State {
  Values w, m, v;
  std::vector<double> ratios;
};

// You et al.'s algorithm 2 in double.
State Reference(State s, const Values& g, const AdamStep& step,
                const std::vector<LambSegment>& segments) {
  const LambOptions o;
  s.ratios.clear();
  for (const LambSegment& segment : segments) {
    Values u(s.w.size());
    double weights = 0.0;
    double updates = 0.0;
    for (auto i = static_cast<size_t>(segment.begin); i < static_cast<size_t>(segment.end); ++i) {
      const double gradient = g[i] * double{step.gradient_scale};
      s.m[i] = double{o.beta1} * s.m[i] + (1.0 - double{o.beta1}) * gradient;
      s.v[i] = double{o.beta2} * s.v[i] + (1.0 - double{o.beta2}) * gradient * gradient;
      u[i] = s.m[i] / double{step.bias_correction1} /
                 (std::sqrt(s.v[i] / double{step.bias_correction2}) + double{o.epsilon}) +
             double{segment.weight_decay} * s.w[i];
      weights += s.w[i] * s.w[i];
      updates += u[i] * u[i];
    }
    const bool adapts = segment.adapts && weights > 0.0 && updates > 0.0;
    s.ratios.push_back(adapts ? std::sqrt(weights / updates) : 1.0);
    for (auto i = static_cast<size_t>(segment.begin); i < static_cast<size_t>(segment.end); ++i) {
      s.w[i] -= double{step.learning_rate} * s.ratios.back() * u[i];
    }
  }
  return s;
}

// Tensors that begin and end anywhere, of less than a pack, of one chunk and of several, and holes.
const std::vector<LambSegment> kSegments = {{0, 1, 0.1f, true},        {1, 4, 0.0f, false},
                                            {5, 38, 0.1f, true},       {38, 8230, 0.01f, true},
                                            {8231, 8234, 0.0f, true},  {8256, 25000, 0.0f, false},
                                            {25003, 41400, 0.1f, true}};
constexpr int64_t kCount = 41472;

AdamStep StepAt(int t) {
  return {.learning_rate = 0.01f,
          .gradient_scale = 0.5f,
          .bias_correction1 = 1.0f - std::pow(0.9f, static_cast<float>(t)),
          .bias_correction2 = 1.0f - std::pow(0.999f, static_cast<float>(t))};
}
Tensor TensorOf(const AdamStep& step) {
  return OnDevice<float>({step.learning_rate, step.gradient_scale, step.bias_correction1,
                          step.bias_correction2, step.skip},
                         {AdamStep::kValues});
}

TEST_CASE("LAMB follows the reference for several steps and touches nothing between tensors") {
  const int copy_type = GENERATE(-1, 0, 1, 2);  // absent, or one of FloatTypes()
  // How many elements further all tensors begin: 0, as arenas do, or unaligned.
  const int64_t shift = GENERATE(0, 1);
  const std::vector<DType> types = FloatTypes();
  if (copy_type >= static_cast<int>(types.size())) return;
  CAPTURE(copy_type, shift);
  Stream stream(TestDevice());
  const auto make = [&](uint32_t site, double low, double high) {
    return Random({kCount + shift}, kF32, site, low, high).Rows(shift, kCount + shift);
  };
  LambTensors tensors = {.weights = make(1, -2, 2), .m = make(2, -1, 1), .v = make(3, 0, 1)};
  if (copy_type >= 0) {
    tensors.copy = Filled({kCount + shift}, types[static_cast<size_t>(copy_type)], 5)
                       .Rows(shift, kCount + shift);
  }
  const LambTable table = MakeLambTable(kSegments, TestArena(), stream);
  State expected = {ValuesOf(tensors.weights), ValuesOf(tensors.m), ValuesOf(tensors.v), {}};
  const Values before = expected.w;
  for (int t = 1; t <= 3; ++t) {
    tensors.gradients = make(static_cast<uint32_t>(10 + t), -2, 2);
    expected = Reference(expected, ValuesOf(tensors.gradients), StepAt(t), kSegments);
    LambUpdate(table, TensorOf(StepAt(t)), {}, tensors, stream);
  }
  CHECK(Difference(tensors.weights, expected.w) < 3e-6);
  CHECK(Difference(tensors.m, expected.m) < 1e-6);
  CHECK(Difference(tensors.v, expected.v) < 1e-6);
  CHECK(Difference(table.ratios, expected.ratios) < 1e-5);
  const Values after = ValuesOf(tensors.weights);
  for (const size_t hole : {4, 8230, 8234, 8255, 25000, 25002, 41400, 41471}) {
    CHECK(after[hole] == before[hole]);
  }
  if (copy_type >= 0) {
    Values copied = ValuesOf(FromValues({kCount}, tensors.copy.dtype(), after));
    for (const size_t hole : {4, 8230, 25000, 41471}) {
      CHECK(ValueAt(tensors.copy, static_cast<int64_t>(hole)) == 5.0);
    }
    const Values copy = ValuesOf(tensors.copy);
    for (const LambSegment& segment : kSegments) {
      const auto begin = static_cast<size_t>(segment.begin);
      CHECK(std::equal(copied.begin() + segment.begin, copied.begin() + segment.end,
                       copy.begin() + static_cast<ptrdiff_t>(begin)));
    }
  }
}

TEST_CASE("LAMB takes a ratio of 1 where a tensor or its update is zero") {
  Stream stream(TestDevice());
  // Zero weights with gradients; weights without gradients and decay; both usual.
  const std::vector<LambSegment> segments = {{0, 8, 0.1f}, {8, 16, 0.0f}, {16, 24, 0.1f}};
  const LambTable table = MakeLambTable(segments, TestArena(), stream);
  LambTensors tensors = {.gradients = Random({24}, kF32, 1),
                         .weights = Random({24}, kF32, 2),
                         .m = Filled({24}, kF32, 0),
                         .v = Filled({24}, kF32, 0)};
  for (int64_t i = 0; i < 8; ++i) {
    SetAt(tensors.weights, i, 0.0);
    SetAt(tensors.gradients, 8 + i, 0.0);
  }
  const Values before = ValuesOf(tensors.weights);
  LambUpdate(table, TensorOf(StepAt(1)), {}, tensors, stream);
  CHECK(ValueAt(table.ratios, 0) == 1.0);
  CHECK(ValueAt(table.ratios, 1) == 1.0);
  CHECK(ValueAt(table.ratios, 2) != 1.0);
  const Values after = ValuesOf(tensors.weights);
  CHECK(std::abs(after[0]) == Approx(0.01).epsilon(1e-3));  // the first step of Adam
  CHECK(Values(after.begin() + 8, after.begin() + 16) ==
        Values(before.begin() + 8, before.begin() + 16));
}

TEST_CASE("LAMB leaves a tensor alone whose moments have all but vanished") {
  Stream stream(TestDevice());
  const LambTable table =
      MakeLambTable(std::vector<LambSegment>{{0, 5, 0.0f, true}}, TestArena(), stream);
  LambTensors tensors = {.gradients = Filled({5}, kF32, 0),
                         .weights = Filled({5}, kF32, 0.5),
                         .m = Filled({5}, kF32, 1e-37),
                         .v = Filled({5}, kF32, 0.1)};
  LambUpdate(table, TensorOf(StepAt(100)), {}, tensors, stream);
  FinishOps();
  for (const double w : ValuesOf(tensors.weights)) CHECK(w == 0.5);
}

TEST_CASE("LAMB changes nothing in an update that is skipped") {
  Stream stream(TestDevice());
  const LambTable table = MakeLambTable(kSegments, TestArena(), stream);
  LambTensors tensors = {.gradients = Filled({kCount}, kF32, INFINITY),
                         .weights = Random({kCount}, kF32, 2),
                         .m = Random({kCount}, kF32, 3),
                         .v = Random({kCount}, kF32, 4, 0.0, 1.0)};
  const LambTensors before = {
      .weights = Copy(tensors.weights), .m = Copy(tensors.m), .v = Copy(tensors.v)};
  LambUpdate(table, TensorOf({.bias_correction1 = 0.0f, .skip = 1.0f}), {}, tensors, stream);
  CHECK(SameBits(tensors.weights, before.weights));
  CHECK(SameBits(tensors.m, before.m));
  CHECK(SameBits(tensors.v, before.v));
}

TEST_CASE("LAMB gives the same bits on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    const LambTable table = MakeLambTable(kSegments, TestArena(), stream);
    LambTensors tensors = {.gradients = Random({kCount}, kF32, 1),
                           .weights = Random({kCount}, kF32, 2),
                           .m = Random({kCount}, kF32, 3),
                           .v = Random({kCount}, kF32, 4, 0.0, 1.0),
                           .copy = Filled({kCount}, DType::kBFloat16, 0)};
    LambUpdate(table, TensorOf(StepAt(2)), {}, tensors, stream);
    return tensors;
  };
  LambTensors one;
  LambTensors two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  CHECK(SameBits(one.weights, two.weights));
  CHECK(SameBits(one.m, two.m));
  CHECK(SameBits(one.v, two.v));
  CHECK(SameBits(one.copy, two.copy));
}

TEST_CASE("LAMB names what breaks its contract") {
  Stream stream(TestDevice());
  const auto table_of = [&](const std::vector<LambSegment>& segments) {
    return MessageOf([&] { MakeLambTable(segments, TestArena(), stream); });
  };
  CHECK(table_of({}).find("no segments") != std::string::npos);
  CHECK(table_of({{0, 4}, {3, 5}}).find("segment [3, 5) after 4") != std::string::npos);
  CHECK(table_of({{4, 4}}).find("segment [4, 4)") != std::string::npos);
  const LambTable table = MakeLambTable(std::vector<LambSegment>{{0, 8}}, TestArena(), stream);
  const auto update = [&](int64_t n, int64_t m, const AdamStep& step) {
    LambTensors tensors = {.gradients = Filled({n}, kF32, 0),
                           .weights = Filled({n}, kF32, 0),
                           .m = Filled({m}, kF32, 0),
                           .v = Filled({n}, kF32, 0)};
    return MessageOf([&] { LambUpdate(table, TensorOf(step), {}, tensors, stream); });
  };
  CHECK(update(8, 8, {}).empty());
  CHECK(update(7, 7, {}).find("after the end of the arenas") != std::string::npos);
  CHECK(update(8, 7, {}).find("m") != std::string::npos);
  // The GPU's step is its own affair: nobody reads it on the host.
  if (TestDevice().type == DeviceType::kCpu) {
    CHECK(update(8, 8, {.bias_correction1 = 0.0f}).find("must be above 0") != std::string::npos);
  }
}

}  // namespace
}  // namespace dtrain
