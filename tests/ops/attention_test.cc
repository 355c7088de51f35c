// attention_test.cc - attention over packed sequences against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/attention.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "testing/random_values.h"
#include "testing/reference/attention_reference.h"
#include "testing/tolerance.h"

namespace dtrain {
namespace {

using Lengths = std::vector<int32_t>;

Sequences Pack(const Lengths& lengths) {
  std::vector<int32_t> offsets = {0};
  for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return Sequences(offsets);
}

struct Case {
  std::string name;
  Lengths queries, keys;
  int num_heads = 1;
  int64_t head_dim = 16;
  bool causal = false;
  float dropout = 0.0f;
  float scale = 0.0f;
};

std::vector<Case> AllCases() {
  return {
      {"one token", {1}, {1}, 2, 16},
      {"short sequences", {3, 17, 1, 32}, {3, 17, 1, 32}, 4, 32},
      {"odd lengths, causal", {31, 33, 1, 127}, {31, 33, 1, 127}, 2, 32, true},
      {"cross, keys longer", {5, 33, 1}, {40, 7, 127}, 2, 64},
      {"cross, keys shorter, own scale", {70, 40}, {1, 9}, 1, 16, false, 0.0f, 0.3f},
      {"odd head sizes", {31, 8}, {31, 8}, 3, 5, true},
      {"head size 33", {19, 40}, {40, 19}, 1, 33},
      {"several tiles", {300, 2}, {300, 2}, 1, 16},
      {"several tiles, causal", {129, 301}, {129, 301}, 1, 24, true},
      {"several tiles, cross", {65, 200}, {385, 128}, 1, 16},
      {"dropout", {31, 12}, {33, 40}, 2, 16, false, 0.3f},
      {"dropout, causal, several tiles", {1, 150, 30}, {1, 150, 30}, 3, 8, true, 0.1f},
      {"a sequence without queries", {4, 0, 6}, {4, 5, 9}, 2, 16},
  };
}

// A problem in T: rows lie in wider storage ([q | k | v] as a fused projection leaves them when the
// lengths agree) and the same numbers in double.
template <typename T>
struct Fixture {
  explicit Fixture(const Case& test, float magnitude = 2.0f)
      : hidden(test.num_heads * test.head_dim) {
    problem.queries = Pack(test.queries);
    problem.keys = Pack(test.keys);
    problem.head_dim = test.head_dim;
    problem.options.num_heads = test.num_heads;
    problem.options.causal = test.causal;
    problem.options.scale = test.scale;
    problem.options.dropout = {test.dropout, {.seed = 11, .step = 3, .site = 7}};
    const int64_t nq = problem.queries.tokens();
    const int64_t nk = problem.keys.tokens();
    q_store = RandomValues<T>(nq * 3 * hidden, 1, magnitude);
    kv_store = RandomValues<T>(nk * 3 * hidden, 2, magnitude);
    d_out = RandomValues<T>(nq * hidden, 3);
    out.resize(static_cast<size_t>(nq * hidden));
    log_sum_exp.resize(static_cast<size_t>(nq * test.num_heads));
    dq_store.assign(q_store.size(), T(77.0f));
    dkv_store.assign(kv_store.size(), T(77.0f));
    problem.q = Dense(View(q_store, nq, 0));
    problem.k = Dense(View(kv_store, nk, 1));
    problem.v = Dense(View(kv_store, nk, 2));
  }

  Tensor View(std::vector<T>& store, int64_t tokens, int64_t part) {
    return Tensor::View(store.data(), {tokens, 3 * hidden})
        .Columns(part * hidden, (part + 1) * hidden);
  }
  static std::vector<T> Values(const Tensor& x) {
    std::vector<T> values;
    for (int64_t r = 0; r < x.dim(0); ++r) {
      const T* const row = x.data<T>() + r * x.row_stride();
      values.insert(values.end(), row, row + x.dim(1));
    }
    return values;
  }
  static std::vector<double> Dense(const Tensor& x) { return ToDouble(Values(x)); }

  AttentionSaved Saved() {
    const int64_t nq = problem.queries.tokens();
    const int64_t nk = problem.keys.tokens();
    return {View(q_store, nq, 0), View(kv_store, nk, 1), View(kv_store, nk, 2),
            Tensor::View(out.data(), {nq, hidden}),
            Tensor::View(log_sum_exp.data(), {nq, problem.options.num_heads})};
  }
  void Forward() {
    AttentionSaved x = Saved();
    Stream stream;
    AttentionForward(x.q, x.k, x.v, problem.queries, problem.keys, problem.options, x.out,
                     x.log_sum_exp, stream);
  }
  void Backward() {
    const int64_t nq = problem.queries.tokens();
    const int64_t nk = problem.keys.tokens();
    dq = View(dq_store, nq, 0);
    dk = View(dkv_store, nk, 1);
    dv = View(dkv_store, nk, 2);
    Stream stream;
    AttentionBackward(Tensor::View(d_out.data(), {nq, hidden}), Saved(), problem.queries,
                      problem.keys, problem.options, dq, dk, dv, stream);
  }

  int64_t hidden;
  AttentionProblem problem;
  std::vector<T> q_store, kv_store, d_out, out, dq_store, dkv_store;
  std::vector<float> log_sum_exp;
  Tensor dq, dk, dv;
};

template <typename T>
double ErrorOf(const Tensor& actual, const std::vector<double>& expected) {
  return RelativeError<T>(Fixture<T>::Values(actual), expected);
}

TEMPLATE_TEST_CASE("attention forward matches plain loops", "", float, BFloat16) {
  for (const Case& test : AllCases()) {
    INFO(test.name);
    Fixture<TestType> x(test);
    x.Forward();
    const AttentionResult expected = ReferenceAttention(x.problem);
    CHECK(RelativeError<TestType>(x.out, expected.out) <= kTolerance<TestType>);
    CHECK(RelativeError<float>(x.log_sum_exp, expected.log_sum_exp) <= kTolerance<float>);
  }
}

TEMPLATE_TEST_CASE("attention backward matches plain loops", "", float, BFloat16) {
  for (const Case& test : AllCases()) {
    INFO(test.name);
    // Scores of moderate size: bfloat16's rounding of `out` enters dS next to its own result.
    Fixture<TestType> x(test, 1.0f);
    x.Forward();
    x.Backward();
    const AttentionGradients expected = ReferenceAttentionBackward(x.problem, ToDouble(x.d_out));
    CHECK(ErrorOf<TestType>(x.dv, expected.dv) <= kTolerance<TestType>);
    if (test.name == "one token") {
      // P is 1 and dS is 0 but for the rounding of out.
      CHECK(std::abs(float(x.dq.template data<TestType>()[0])) <= kTolerance<TestType>);
      continue;
    }
    CHECK(ErrorOf<TestType>(x.dq, expected.dq) <= kTolerance<TestType>);
    CHECK(ErrorOf<TestType>(x.dk, expected.dk) <= kTolerance<TestType>);
    // The storage between the gradients' rows is somebody else's.
    CHECK(float(x.dkv_store[0]) == 77.0f);
    CHECK(float(x.dq_store[static_cast<size_t>(x.hidden)]) == 77.0f);
  }
}

// d sum(out * d_out) / d values[i], by central differences of the double reference.
double Slope(AttentionProblem& problem, std::vector<double>& values, size_t i,
             const std::vector<double>& d_out) {
  constexpr double kStep = 1e-5;
  const double kept = values[i];
  const auto loss = [&](double value) {
    values[i] = value;
    const auto out = ReferenceAttention(problem).out;
    return std::inner_product(out.begin(), out.end(), d_out.begin(), 0.0);
  };
  const double slope = (loss(kept + kStep) - loss(kept - kStep)) / (2 * kStep);
  values[i] = kept;
  return slope;
}

TEST_CASE("the reference's gradients are finite differences of the reference") {
  const std::vector<Case> cases = {
      {"causal, dropout", {5, 3}, {5, 3}, 2, 3, true, 0.2f},
      {"cross", {2, 4}, {6, 1}, 2, 3},
  };
  for (const Case& test : cases) {
    INFO(test.name);
    Fixture<float> x(test);
    const std::vector<double> d_out = ToDouble(x.d_out);
    const AttentionGradients g = ReferenceAttentionBackward(x.problem, d_out);
    for (size_t i = 0; i < g.dq.size(); ++i) {
      CHECK(Slope(x.problem, x.problem.q, i, d_out) == Approx(g.dq[i]).margin(1e-8));
    }
    for (size_t i = 0; i < g.dk.size(); ++i) {
      CHECK(Slope(x.problem, x.problem.k, i, d_out) == Approx(g.dk[i]).margin(1e-8));
      CHECK(Slope(x.problem, x.problem.v, i, d_out) == Approx(g.dv[i]).margin(1e-8));
    }
  }
}

TEMPLATE_TEST_CASE("attention gives the same bits on any number of threads", "", float, BFloat16) {
  const int threads = NumThreads();
  for (const Case& test : AllCases()) {
    INFO(test.name);
    Fixture<TestType> one(test);
    Fixture<TestType> two(test);
    SetNumThreads(1);
    one.Forward();
    one.Backward();
    SetNumThreads(3);
    two.Forward();
    two.Backward();
    const auto same = [](const std::vector<TestType>& a, const std::vector<TestType>& b) {
      return a.size() == b.size() &&
             std::memcmp(a.data(), b.data(), a.size() * sizeof(TestType)) == 0;
    };
    CHECK(same(one.out, two.out));
    CHECK(same(one.dq_store, two.dq_store));
    CHECK(same(one.dkv_store, two.dkv_store));
    CHECK(one.log_sum_exp == two.log_sum_exp);
  }
  SetNumThreads(threads);
}

TEST_CASE("large scores do not overflow") {
  Fixture<float> x({"", {40, 3}, {40, 3}, 1, 16, true}, 60.0f);
  x.Forward();
  x.Backward();
  CHECK(RelativeError<float>(x.out, ReferenceAttention(x.problem).out) <= 1e-3);
  for (const float value : x.dq_store) CHECK(std::isfinite(value));
}

TEST_CASE("attention refuses shapes that do not fit") {
  std::vector<float> values(256);
  Stream stream;
  const Tensor x = Tensor::View(values.data(), {4, 8});
  Tensor out = x;
  Tensor statistics = Tensor::View(values.data(), {4, 2});
  const auto run = [&](const Tensor& k, const Lengths& queries, const Lengths& keys,
                       const AttentionOptions& options) {
    AttentionForward(x, k, k, Pack(queries), Pack(keys), options, out, statistics, stream);
  };
  CHECK_THROWS_WITH(run(x, {4}, {4}, {.num_heads = 3}), Catch::Contains("divide the hidden size"));
  CHECK_THROWS_WITH(run(x, {3}, {4}, {.num_heads = 2}), Catch::Contains("q is [tokens, hidden]"));
  CHECK_THROWS_WITH(run(x, {4}, {5}, {.num_heads = 2}), Catch::Contains("k is [tokens, hidden]"));
  CHECK_THROWS_WITH(run(x, {2, 2}, {4}, {.num_heads = 2}),
                    Catch::Contains("every sequence has queries and keys"));
  CHECK_THROWS_WITH(run(x, {2, 2}, {4, 0}, {.num_heads = 2}),
                    Catch::Contains("sequence 1 has queries but no keys"));
  CHECK_THROWS_WITH(run(x, {1, 3}, {2, 2}, {.num_heads = 2, .causal = true}),
                    Catch::Contains("sequence 0 is causal with 1 queries and 2 keys"));
  CHECK_THROWS_WITH(run(x, {4}, {4}, {.num_heads = 4}), Catch::Contains("log_sum_exp is"));
  CHECK_THROWS_WITH(run(x, {4}, {4}, {.num_heads = 2, .dropout = {1.0f, {}}}),
                    Catch::Contains("dropout probability 1"));
}

}  // namespace
}  // namespace dtrain
