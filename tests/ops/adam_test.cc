// adam_test.cc - the Adam and AdamW update.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/adam.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;

struct State {
  Values w, m, v;
};

// Kingma and Ba's algorithm 1 with decoupled decay, in double.
State Reference(State s, const Values& g, const AdamStep& now, const AdamOptions& o) {
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * double{now.gradient_scale} + double{o.l2} * s.w[i];
    s.m[i] = double{o.beta1} * s.m[i] + (1.0 - double{o.beta1}) * gradient;
    s.v[i] = double{o.beta2} * s.v[i] + (1.0 - double{o.beta2}) * gradient * gradient;
    const double m_hat = s.m[i] / double{now.bias_correction1};
    const double v_hat = s.v[i] / double{now.bias_correction2};
    s.w[i] -= double{now.learning_rate} *
              (m_hat / (std::sqrt(v_hat) + double{o.epsilon}) + double{o.weight_decay} * s.w[i]);
  }
  return s;
}

Tensor OnDevice(const AdamStep& step) {
  return FromValues({AdamStep::kValues}, kF32,
                    {step.learning_rate, step.gradient_scale, step.bias_correction1,
                     step.bias_correction2, step.skip});
}

TEST_CASE("Adam follows the reference for several steps") {
  const float weight_decay = GENERATE(0.0f, 0.1f);
  const float l2 = GENERATE(0.0f, 0.1f);
  const int copy_type = GENERATE(0, 1, 2);  // absent, float32, bfloat16
  Stream stream(TestDevice());
  for (const int64_t n : {1, 31, 33, 1023, 40000}) {
    CAPTURE(weight_decay, copy_type, n);
    Tensor w = Random({n}, kF32, 1);
    Tensor m = Filled({n}, kF32, 0);
    Tensor v = Filled({n}, kF32, 0);
    Tensor copy = copy_type == 0   ? Tensor()
                  : copy_type == 1 ? Filled({n}, kF32, 0)
                                   : Filled({n}, DType::kBFloat16, 0);
    State expected = {ValuesOf(w), ValuesOf(m), ValuesOf(v)};
    for (int t = 1; t <= 3; ++t) {
      const Tensor g = Random({n}, kF32, static_cast<uint32_t>(10 + t));
      const AdamOptions options = {.l2 = l2, .weight_decay = weight_decay};
      const AdamStep step = {.learning_rate = 0.01f,
                             .gradient_scale = 0.5f,
                             .bias_correction1 = 1.0f - std::pow(0.9f, static_cast<float>(t)),
                             .bias_correction2 = 1.0f - std::pow(0.999f, static_cast<float>(t))};
      AdamUpdate(g, OnDevice(step), options, w, m, v, copy, stream);
      expected = Reference(expected, ValuesOf(g), step, options);
    }
    CHECK(Difference(w, expected.w) < 1e-6);
    CHECK(Difference(m, expected.m) < 1e-6);
    CHECK(Difference(v, expected.v) < 1e-6);
    if (copy_type != 0) {
      CHECK(ValuesOf(copy) == ValuesOf(FromValues({n}, copy.dtype(), ValuesOf(w))));
    }
  }
}

TEST_CASE("Adam updates ranges that begin anywhere, and nothing beside them") {
  const DType copy_type = GENERATE(from_range(FloatTypes()));
  // How many elements further the moments lie: 0, as in arenas laid out alike, or not.
  const int64_t shift = GENERATE(0, 1);
  const int64_t begin = GENERATE(0, 1, 2, 3, 5);
  const int64_t n = GENERATE(1, 2, 7, 4103);
  CAPTURE(Name(copy_type), shift, begin, n);
  Stream stream(TestDevice());
  const int64_t all = n + 16;
  Tensor w = Random({all}, kF32, 1);
  Tensor m = Random({all}, kF32, 2);
  Tensor v = Random({all}, kF32, 3, 0.0, 1.0);
  Tensor copy = Filled({all}, copy_type, 5);
  const Tensor g = Random({all}, kF32, 4);
  const auto part = [&](const Values& x, int64_t first) {
    return Values(x.begin() + first, x.begin() + first + n);
  };
  const int64_t at_m = begin + shift;
  const State before = {ValuesOf(w), ValuesOf(m), ValuesOf(v)};
  const AdamOptions options = {.weight_decay = 0.1f};
  const AdamStep step = {.learning_rate = 0.1f, .gradient_scale = 0.25f};
  const State expected =
      Reference({part(before.w, begin), part(before.m, at_m), part(before.v, begin)},
                part(ValuesOf(g), begin), step, options);
  Tensor w_part = w.Rows(begin, begin + n);
  Tensor m_part = m.Rows(at_m, at_m + n);
  Tensor v_part = v.Rows(begin, begin + n);
  Tensor copy_part = copy.Rows(begin, begin + n);
  AdamUpdate(g.Rows(begin, begin + n), OnDevice(step), options, w_part, m_part, v_part, copy_part,
             stream);
  CHECK(Difference(w_part, expected.w) < 1e-6);
  CHECK(Difference(m_part, expected.m) < 1e-6);
  CHECK(Difference(v_part, expected.v) < 1e-6);
  CHECK(ValuesOf(copy_part) == ValuesOf(FromValues({n}, copy_type, ValuesOf(w_part))));
  const auto outside = [&](const Values& x, int64_t first) {
    Values rest(x.begin(), x.begin() + first);
    rest.insert(rest.end(), x.begin() + first + n, x.end());
    return rest;
  };
  CHECK(outside(ValuesOf(w), begin) == outside(before.w, begin));
  CHECK(outside(ValuesOf(m), at_m) == outside(before.m, at_m));
  CHECK(outside(ValuesOf(v), begin) == outside(before.v, begin));
  CHECK(outside(ValuesOf(copy), begin) == Values(16, 5.0));
}

TEST_CASE("Adam gives equal weights equal bits, wherever they lie") {
  // Some lie in packs that a thread of a GPU takes together, some in its last one, and some before
  // and after all packs.
  constexpr int64_t kPeriod = 37;
  constexpr int64_t kCount = 4103;
  Stream stream(TestDevice());
  const auto repeated = [&](uint32_t site, double low) {
    const Values few = ValuesOf(Random({kPeriod}, kF32, site, low, 1.0));
    Values many(kCount + 1);
    for (int64_t i = 0; i <= kCount; ++i) {
      many[static_cast<size_t>(i)] = few[static_cast<size_t>(i % kPeriod)];
    }
    return FromValues({kCount + 1}, kF32, many).Rows(1, kCount + 1);
  };
  Tensor w = repeated(1, -1.0);
  Tensor m = repeated(2, -1.0);
  Tensor v = repeated(3, 0.0);
  Tensor absent;
  AdamUpdate(repeated(4, -1.0), OnDevice({.gradient_scale = 0.3f}),
             {.l2 = 0.01f, .weight_decay = 0.01f}, w, m, v, absent, stream);
  FinishOps();
  for (const Tensor& x : {w, m, v}) {
    for (int64_t i = kPeriod; i < kCount; ++i) REQUIRE(ValueAt(x, i) == ValueAt(x, i - kPeriod));
  }
}

TEST_CASE("Adam leaves a weight alone that has never had a gradient") {
  Stream stream(TestDevice());
  Tensor w = Random({100}, kF32, 1);
  const Tensor before = Copy(w);
  Tensor m = Filled({100}, kF32, 0);
  Tensor v = Filled({100}, kF32, 0);
  Tensor absent;
  AdamUpdate(m, OnDevice({}), {}, w, m, v, absent, stream);
  CHECK(SameBits(w, before));
}

TEST_CASE("Adam gives the same bits on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    constexpr int64_t kCount = 100003;
    const Tensor g = Random({kCount}, kF32, 1);
    std::vector<Tensor> out = {Random({kCount}, kF32, 2), Random({kCount}, kF32, 3),
                               Random({kCount}, kF32, 4, 0.0, 1.0),
                               Filled({kCount}, DType::kBFloat16, 0)};
    AdamUpdate(g, OnDevice({.gradient_scale = 0.3f}), {.weight_decay = 0.01f}, out[0], out[1],
               out[2], out[3], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("Adam leaves everything as it is where the step is skipped") {
  const DType copy_type = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  std::vector<Tensor> state = {Random({1023}, kF32, 1), Random({1023}, kF32, 2),
                               Random({1023}, kF32, 3, 0.0, 1.0), Filled({1023}, copy_type, 5)};
  std::vector<Tensor> before;
  for (const Tensor& tensor : state) before.push_back(Copy(tensor));
  const Tensor broken = Filled({1023}, kF32, std::numeric_limits<double>::quiet_NaN());
  AdamUpdate(broken, OnDevice({.skip = 1.0f}), {.weight_decay = 0.1f}, state[0], state[1], state[2],
             state[3], stream);
  for (size_t i = 0; i < state.size(); ++i) CHECK(SameBits(state[i], before[i]));
}

TEST_CASE("Adam refuses what does not fit") {
  Stream stream(TestDevice());
  Tensor w = Filled({8}, kF32, 0);
  Tensor shorter = Filled({7}, kF32, 0);
  Tensor absent;
  const auto message = [&](const Tensor& step, Tensor m) {
    return MessageOf([&] { AdamUpdate(w, step, {}, w, m, w, absent, stream); });
  };
  CHECK_THAT(message(OnDevice({}), shorter), Catch::Contains("AdamUpdate: m is [7], must be [8]"));
  CHECK_THAT(message(Filled({1}, kF32, 1), w), Catch::Contains("AdamUpdate: step is [1]"));
  if (TestDevice().type == DeviceType::kCuda) return;  // what lies there the host does not read
  CHECK_THAT(message(OnDevice({.bias_correction1 = 0.0f}), w), Catch::Contains("must be above 0"));
}

}  // namespace
}  // namespace dtrain
