// attention_window_test.cc - attention whose queries see only keys near them, against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/attention_engine.h"
#include "testing/attention_case.h"
#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/tolerance.h"

namespace dtrain {
namespace {

using namespace testing;
using Case = AttentionCase;
using Fixture = AttentionFixture;
using Catch::Generators::from_range;

Case Window(int window, const Lengths& lengths, int num_heads, int64_t head_dim,
            float dropout = 0.0f) {
  Case test;
  test.name = "window " + std::to_string(window) + ", head size " + std::to_string(head_dim) +
              ", " + std::to_string(lengths[0]) + (dropout > 0.0f ? ", dropout" : "");
  test.queries = test.keys = lengths;
  test.num_heads = num_heads;
  test.head_dim = head_dim;
  test.dropout = dropout;
  test.window = window;
  return test;
}

// Windows smaller and larger than sequences, vectors and the kernels' tiles of 16, 32, 64 and 128
// rows, at their edges.
std::vector<Case> AllCases() {
  std::vector<Case> cases = {
      Window(1, {1, 5, 17, 33}, 2, 16),
      Window(3, {31, 8, 2}, 3, 5),
      Window(4, {33, 40}, 2, 16, 0.3f),
      Window(7, {50, 0, 1}, 2, 8),
      Window(2, {150, 130}, 1, 16, 0.2f),
      Window(20, {300, 2}, 1, 24),
      Window(64, {257, 129}, 3, 24, 0.1f),
      Window(100, {150, 60}, 1, 33),
      Window(289, {291}, 1, 40),
      Window(1000, {31, 12}, 2, 20),
      // Head sizes of the matrix units' kernels.
      Window(8, {3, 12, 70}, 2, 32),
      Window(5, {129, 3}, 2, 32, 0.5f),
      Window(31, {100, 33}, 1, 32),
      Window(16, {130, 0, 7}, 2, 64),
      Window(64, {200, 64, 65, 66}, 1, 64),
      Window(64, {193, 31}, 2, 64, 0.2f),
      Window(1, {140, 2}, 1, 64, 0.1f),
      Window(63, {385}, 1, 64),
      Window(100, {257}, 1, 64),
      Window(20, {90, 17}, 1, 128),
      Window(2, {66, 1}, 1, 128, 0.2f),
      Window(48, {170}, 2, 128),
      // Around the edges of the tiles of 96 queries and 192 keys that CPUs have for floats.
      Window(95, {193, 97}, 1, 12),
      Window(96, {384, 96}, 1, 12, 0.1f),
      Window(191, {577}, 1, 8),
      // What they leave to the plain ones.
      Window(3, {17}, 1, 256),
  };
  Case apart = Window(6, {40}, 1, 64, 0.1f);
  apart.padding = 5;
  cases.push_back(apart);
  Case negative = Window(4, {20, 9}, 1, 32);
  negative.scale = -0.2f;
  cases.push_back(negative);
  return cases;
}

// The cases for TestDevice(). On a GPU (or what runs its kernels here, slowly) the large ones are
// for the types whose kernels they were made for: float32 has no matrix units.
std::vector<Case> CasesOf(DType dtype) {
  std::vector<Case> cases = AllCases();
  if (TestDevice().type == DeviceType::kCpu) return cases;
  std::erase_if(cases, [&](const Case& test) {
    const bool is_large = 2 * Pack(test.queries).tokens() > 150;
    const bool is_plain = test.head_dim != 32 && test.head_dim != 64 && test.head_dim != 128;
    return is_large && is_plain != (dtype == DType::kFloat32);
  });
  return cases;
}

double ErrorOf(const Tensor& actual, const Values& expected) {
  return RelativeError<double>(ValuesOf(actual), expected);
}

void CheckAgainstReference(const Case& test, DType dtype) {
  INFO(test.name << ", " << Name(dtype));
  const double tolerance = ToleranceOf(dtype);
  Fixture x(test, dtype, 1.0);
  x.Forward();
  x.Backward();
  const AttentionResult expected = ReferenceAttention(x.problem);
  CHECK(ErrorOf(x.out, expected.out) <= tolerance);
  CHECK(ErrorOf(x.log_sum_exp, expected.log_sum_exp) <= ToleranceOf(DType::kFloat32));
  const AttentionGradients gradients = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
  CHECK(ErrorOf(x.dv, gradients.dv) <= tolerance);
  CHECK(ErrorOf(x.dq, gradients.dq) <= tolerance);
  CHECK(ErrorOf(x.dk, gradients.dk) <= tolerance);
}

TEST_CASE("attention with a window matches plain loops") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  for (const Case& test : CasesOf(dtype)) CheckAgainstReference(test, dtype);
}

TEST_CASE("engines without windows leave them to those that have them") {
  if (TestDevice().type == DeviceType::kCpu) return;
  const DType dtype = GENERATE(DType::kBFloat16, DType::kFloat16);
  SetAttentionEngine(AttentionEngine::kWarpgroups);
  for (const Case& test : CasesOf(dtype)) {
    if (test.head_dim == 64) CheckAgainstReference(test, dtype);
  }
  SetAttentionEngine(AttentionEngine::kNative);
}

void CheckSameBits(const Fixture& one, const Fixture& two) {
  CHECK(SameBits(one.out, two.out));
  CHECK(SameBits(one.log_sum_exp, two.log_sum_exp));
  CHECK(SameBits(one.dq_store, two.dq_store));
  CHECK(SameBits(one.dkv_store, two.dkv_store));
}

TEST_CASE("a window that reaches every key gives the bits of no window") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int window = GENERATE(39, 40, std::numeric_limits<int>::max());
  for (const int64_t head_dim : {24, 64}) {
    INFO(Name(dtype) << ", window " << window << ", head size " << head_dim);
    Fixture with(Window(window, {40, 7}, 2, head_dim, 0.2f), dtype);
    Fixture without(Window(0, {40, 7}, 2, head_dim, 0.2f), dtype);
    for (Fixture* x : {&with, &without}) {
      x->Forward();
      x->Backward();
    }
    CheckSameBits(with, without);
  }
}

TEST_CASE("attention with a window gives the same bits on any number of threads") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int threads = NumThreads();
  for (const Case& test : {Window(20, {150, 3, 90}, 3, 16, 0.1f), Window(9, {70, 35}, 2, 64)}) {
    INFO(test.name << ", " << Name(dtype));
    Fixture one(test, dtype);
    Fixture two(test, dtype);
    SetNumThreads(1);
    one.Forward();
    one.Backward();
    SetNumThreads(3);
    two.Forward();
    two.Backward();
    CheckSameBits(one, two);
  }
  SetNumThreads(threads);
}

TEST_CASE("a sequence with a window gets the same bits alone and in a batch") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int64_t head_dim = GENERATE(24, 64);
  // The shortest one is within the window, and alone needs none.
  const Lengths lengths = {65, 130, 9};
  INFO(Name(dtype) << ", head size " << head_dim);
  Fixture batch(Window(12, lengths, 2, head_dim), dtype);
  batch.Forward();
  const AttentionSaved x = batch.Saved();
  const Sequences& all = batch.problem.queries;
  Tensor out = Filled(batch.out.shape(), dtype, 77.0);
  Tensor log_sum_exp = Filled(batch.log_sum_exp.shape(), DType::kFloat32, 77.0);
  Stream stream(TestDevice());
  for (int64_t i = 0; i < all.count(); ++i) {
    const int64_t begin = all.begin(i);
    const int64_t end = all.end(i);
    const Sequences one = Pack({all.length(i)});
    Tensor out_of_one = out.Rows(begin, end);
    Tensor statistics_of_one = log_sum_exp.Rows(begin, end);
    AttentionForward(x.q.Rows(begin, end), x.k.Rows(begin, end), x.v.Rows(begin, end), one, one,
                     batch.problem.options, out_of_one, statistics_of_one, stream);
  }
  stream.Synchronize();
  CHECK(SameBits(out, batch.out));
  CHECK(SameBits(log_sum_exp, batch.log_sum_exp));
}

// Time grows with the window and not with the length, because tiles outside of it are not read. A
// NaN would pass through every product with a tile, masked or not.
TEST_CASE("attention with a window reads nothing far outside of it") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int64_t head_dim = GENERATE(16, 64);
  constexpr int64_t kLength = 512;
  constexpr int64_t kFirstBroken = 300;
  constexpr int64_t kSafe = 128;  // rows that share no tile with broken ones
  INFO(Name(dtype) << ", head size " << head_dim);
  Fixture whole(Window(5, {kLength}, 1, head_dim), dtype, 1.0);
  Fixture broken(Window(5, {kLength}, 1, head_dim), dtype, 1.0);
  for (Tensor* x : {&broken.q_store, &broken.kv_store, &broken.d_out}) {
    Values values = ValuesOf(*x);
    const auto columns = static_cast<size_t>(x->dim(1));
    for (size_t i = kFirstBroken * columns; i < values.size(); ++i) values[i] = NAN;
    *x = FromValues(x->shape(), dtype, values);
  }
  for (Fixture* x : {&whole, &broken}) {
    x->Forward();
    x->Backward();
  }
  CHECK(std::isnan(ValueAt(broken.out, kFirstBroken * head_dim)));
  // Not the same bits: where one sum is no number, a unit may be computed in another way.
  const auto check = [&](const Tensor& of_broken, const Tensor& of_whole) {
    CHECK(ErrorOf(of_broken.Rows(0, kSafe), ValuesOf(of_whole.Rows(0, kSafe))) <=
          ToleranceOf(dtype));
  };
  check(broken.out, whole.out);
  check(broken.log_sum_exp, whole.log_sum_exp);
  check(broken.dq, whole.dq);
  check(broken.dk, whole.dk);
  check(broken.dv, whole.dv);
}

// Rows of a warp or vector that see no key of a tile must not spoil those that do.
TEST_CASE("large scores with a window do not overflow") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int64_t head_dim = GENERATE(24, 64);
  INFO(Name(dtype) << ", head size " << head_dim);
  Fixture x(Window(3, {140}, 1, head_dim), dtype, 60.0);
  x.Forward();
  x.Backward();
  // Scores reach 10^4: their rounding is that of their size.
  CHECK(ErrorOf(x.out, ReferenceAttention(x.problem).out) <=
        std::max(1e-3, 2.0 * ToleranceOf(dtype)));
  for (const double value : ValuesOf(x.dq)) REQUIRE(std::isfinite(value));
  for (const double value : ValuesOf(x.dk)) REQUIRE(std::isfinite(value));
}

TEST_CASE("windows that attention cannot have are refused") {
  std::vector<float> values(256);
  Stream stream;
  const Tensor q = Tensor::View(values.data(), {4, 8});
  const Tensor k = Tensor::View(values.data(), {5, 8});
  Tensor out = q;
  Tensor statistics = Tensor::View(values.data(), {4, 1});
  const auto run = [&](const Tensor& keys, const AttentionOptions& options) {
    AttentionForward(q, keys, keys, Pack({4}), Pack({static_cast<int32_t>(keys.dim(0))}), options,
                     out, statistics, stream);
  };
  CHECK_THROWS_WITH(run(q, {.window = -1}),
                    Catch::Contains("a window is a number of keys on either side of a query"));
  CHECK_THROWS_WITH(run(q, {.causal = true, .window = 1}),
                    Catch::Contains("attention is causal or has a window, not both"));
  CHECK_THROWS_WITH(run(k, {.window = 1}),
                    Catch::Contains("sequence 0 has a window with 4 queries and 5 keys"));
}

}  // namespace
}  // namespace dtrain
