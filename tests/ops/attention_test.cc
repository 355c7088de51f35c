// attention_test.cc - attention over packed sequences against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/base/thread_pool.h"
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

std::vector<Case> AllCases() {
  return {
      {"one token", {1}, {1}, 2, 16},
      {"one token, whole tiles", {1}, {1}, 2, 32},
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
      // Head sizes of the matrix units' kernels, around the edges of their tiles of 16 and 64.
      {"head size 64", {1, 15, 64, 65}, {1, 15, 64, 65}, 2, 64},
      {"head size 64, short, dropout", {17, 65, 0}, {70, 9, 33}, 2, 64, false, 0.3f},
      {"head size 64, long", {129}, {193}, 1, 64},
      {"head size 64, long, causal", {127, 66}, {127, 66}, 1, 64, true},
      {"head size 64, dropout", {17, 65, 0}, {70, 9, 129}, 2, 64, false, 0.3f},
      {"head size 64, dropout, causal", {130}, {130}, 1, 64, true, 0.1f},
      {"head size 64, many tiles, dropout", {200, 17}, {257, 320}, 2, 64, false, 0.2f},
      {"head size 64, many tiles, causal", {257, 64}, {257, 64}, 2, 64, true},
      {"head size 32, long, causal", {65, 31}, {65, 31}, 2, 32, true},
      {"head size 32, dropout", {33, 66}, {130, 7}, 1, 32, false, 0.5f},
      {"head size 128", {65, 0, 3}, {33, 4, 129}, 1, 128},
      {"head size 128, dropout, causal", {66, 17}, {66, 17}, 1, 128, true, 0.2f},
      {"many keys", {3}, {1023}, 1, 64, false, 0.1f},
      {"many queries", {1023}, {5}, 1, 32},
      // Around the edges of the tiles of 96 queries and 192 keys that CPUs have for floats.
      {"tiles of floats", {96, 97, 95}, {192, 193, 191}, 2, 8},
      {"tiles of floats, causal, dropout", {193, 97, 385}, {193, 97, 385}, 1, 12, true, 0.1f},
      {"few keys, and one query", {192, 1}, {3, 577}, 1, 20, false, 0.1f},
      // What they leave to the plain ones.
      {"many keys, odd head size", {2}, {1023}, 1, 20},
      {"head size 64, rows not aligned", {33}, {40}, 1, 64, false, 0.1f, 0.0f, 5},
      {"head size 32, negative scale", {9, 20}, {30, 5}, 1, 32, false, 0.0f, -0.2f},
      {"head size 256", {3, 17}, {3, 17}, 1, 256, true},
  };
}

// The cases for TestDevice(). On a GPU (or what runs its kernels here, slowly) the large ones are
// for the types whose kernels they were made for: float32 has no matrix units.
std::vector<Case> CasesOf(DType dtype) {
  std::vector<Case> cases = AllCases();
  if (TestDevice().type == DeviceType::kCpu) return cases;
  std::erase_if(cases, [&](const Case& test) {
    const bool is_large = Pack(test.queries).tokens() + Pack(test.keys).tokens() > 150;
    const bool is_plain = test.head_dim != 32 && test.head_dim != 64 && test.head_dim != 128;
    return is_large && is_plain != (dtype == DType::kFloat32);
  });
  return cases;
}

double ErrorOf(const Tensor& actual, const Values& expected) {
  return RelativeError<double>(ValuesOf(actual), expected);
}

TEST_CASE("attention forward matches plain loops") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  for (const Case& test : CasesOf(dtype)) {
    INFO(test.name << ", " << Name(dtype));
    Fixture x(test, dtype);
    x.Forward();
    const AttentionResult expected = ReferenceAttention(x.problem);
    CHECK(ErrorOf(x.out, expected.out) <= ToleranceOf(dtype));
    CHECK(ErrorOf(x.log_sum_exp, expected.log_sum_exp) <= ToleranceOf(DType::kFloat32));
  }
}

TEST_CASE("attention backward matches plain loops") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const double tolerance = ToleranceOf(dtype);
  for (const Case& test : CasesOf(dtype)) {
    INFO(test.name << ", " << Name(dtype));
    // Scores of moderate size: the type's rounding of `out` enters dS next to its own result.
    Fixture x(test, dtype, 1.0);
    x.Forward();
    x.Backward();
    const AttentionGradients expected = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
    CHECK(ErrorOf(x.dv, expected.dv) <= tolerance);
    if (test.name.starts_with("one token")) {
      // P is 1 and dS is 0 but for the rounding of out.
      CHECK(std::abs(ValueAt(x.dq, 0)) <= tolerance);
      continue;
    }
    CHECK(ErrorOf(x.dq, expected.dq) <= tolerance);
    CHECK(ErrorOf(x.dk, expected.dk) <= tolerance);
    // The storage between the gradients' rows is somebody else's.
    for (int64_t row = 0; row < x.dkv_store.dim(0); ++row) {
      REQUIRE(ValueAt(x.dkv_store, row * x.dkv_store.row_stride() + x.hidden - 1) == 77.0);
    }
    for (int64_t row = 0; row < x.dq_store.dim(0); ++row) {
      REQUIRE(ValueAt(x.dq_store, row * x.dq_store.row_stride() + x.hidden) == 77.0);
    }
  }
}

// Takes another engine as long as it exists.
class WithEngine {
 public:
  explicit WithEngine(AttentionEngine engine) { SetAttentionEngine(engine); }
  WithEngine(const WithEngine&) = delete;
  WithEngine& operator=(const WithEngine&) = delete;
  ~WithEngine() { SetAttentionEngine(AttentionEngine::kNative); }
};

TEST_CASE("attention by products of warpgroups matches plain loops") {
  if (!HasWarpgroupAttention(TestDevice())) return;
  const WithEngine engine(AttentionEngine::kWarpgroups);
  const DType dtype = GENERATE(DType::kBFloat16, DType::kFloat16);
  const double tolerance = ToleranceOf(dtype);
  for (const Case& test : AllCases()) {
    if (test.head_dim != 64) continue;
    INFO(test.name << ", " << Name(dtype));
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
}

TEST_CASE("keys without any query get gradients of zero") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int64_t head_dim = GENERATE(24, 64, 128);
  Fixture x({"", {0, 0}, {3, 5}, 2, head_dim}, dtype);
  x.Forward();
  x.Backward();
  for (const double value : ValuesOf(x.dk)) REQUIRE(value == 0.0);
  for (const double value : ValuesOf(x.dv)) REQUIRE(value == 0.0);
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
      {"window, dropout", {7, 3}, {7, 3}, 2, 3, false, 0.2f, 0.0f, 0, /*window=*/2},
  };
  for (const Case& test : cases) {
    INFO(test.name);
    Fixture x(test, DType::kFloat32);
    const std::vector<double> d_out = ValuesOf(x.d_out);
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

// Backward with dropout draws the bits that forward drew, and the sums have one order.
TEST_CASE("attention gives the same bits every time, on any number of threads") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int threads = NumThreads();
  for (const Case& test : CasesOf(dtype)) {
    if (TestDevice().type == DeviceType::kCuda && !(test.causal && test.dropout > 0.0f)) continue;
    INFO(test.name << ", " << Name(dtype));
    Fixture one(test, dtype);
    Fixture two(test, dtype);
    SetNumThreads(1);
    one.Forward();
    one.Backward();
    SetNumThreads(3);
    two.Forward();
    two.Backward();
    CHECK(SameBits(one.out, two.out));
    CHECK(SameBits(one.dq_store, two.dq_store));
    CHECK(SameBits(one.dkv_store, two.dkv_store));
    CHECK(SameBits(one.log_sum_exp, two.log_sum_exp));
  }
  SetNumThreads(threads);
}

// On a GPU, a batch's blocks take two tiles of 16 queries a warp where they are at least two per
// multiprocessor (the host executor has 3), and else one.
TEST_CASE("a sequence gets the same bits alone and in a batch") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const int64_t head_dim = GENERATE(32, 64);
  const bool causal = GENERATE(false, true);
  const Lengths lengths = {65, 150, 3};
  INFO(Name(dtype) << ", head size " << head_dim << ", causal " << causal);
  Fixture batch({"", lengths, lengths, 2, head_dim, causal}, dtype);
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

TEST_CASE("large scores do not overflow") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Fixture x({"", {40, 3}, {40, 3}, 1, 64, true}, dtype, 60.0);
  x.Forward();
  x.Backward();
  // Scores reach 10^4: their rounding is that of their size.
  CHECK(ErrorOf(x.out, ReferenceAttention(x.problem).out) <=
        std::max(1e-3, 2.0 * ToleranceOf(dtype)));
  for (const double value : ValuesOf(x.dq)) CHECK(std::isfinite(value));
}

// Kernels may take exponentials of scores as they are, up to some size (41 where sums may be 2^60).
TEST_CASE("scores of every size give the same probabilities as their distances") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  constexpr int32_t kKeys = 150;
  const double level =
      GENERATE(-300.0, -90.0, -80.0, -48.0, -44.0, 0.0, 36.0, 40.0, 80.0, 90.0, 300.0);
  // All keys share q's first column, whose product with q is the level; the second one differs.
  Values q(64, 0.0);
  q[0] = 1.0;
  q[1] = 1.0;
  Values k(size_t{kKeys} * 64, 0.0);
  Values v(size_t{kKeys} * 64, 0.0);
  double sum = 0.0;
  double expected = 0.0;
  for (size_t key = 0; key < kKeys; ++key) {
    const double distance = static_cast<double>(key % 5);
    k[key * 64] = level;
    k[key * 64 + 1] = -distance;
    v[key * 64 + 3] = static_cast<double>(key % 7);
    sum += std::exp(-distance);
    expected += std::exp(-distance) * static_cast<double>(key % 7);
  }
  // Rows on either side are of other sizes: one may not spoil another.
  const Tensor queries = FromValues({3, 64}, dtype, [&] {
    Values rows(64, 0.0);
    rows.insert(rows.end(), q.begin(), q.end());
    rows.resize(size_t{3} * 64, 0.0);
    return rows;
  }());
  const Tensor keys = FromValues({kKeys, 64}, dtype, k);
  const Tensor values = FromValues({kKeys, 64}, dtype, v);
  Tensor out = Filled({3, 64}, dtype, 77.0);
  Tensor log_sum_exp = Filled({3, 1}, DType::kFloat32, 77.0);
  Stream stream(TestDevice());
  AttentionForward(queries, keys, values, Pack({3}), Pack({kKeys}), {.scale = 1.0f}, out,
                   log_sum_exp, stream);
  stream.Synchronize();
  INFO(Name(dtype) << ", " << level);
  CHECK(ValueAt(out, 64 + 3) == Approx(expected / sum).epsilon(ToleranceOf(dtype)));
  CHECK(ValueAt(log_sum_exp, 1) == Approx(level + std::log(sum)).margin(2e-5).epsilon(1e-6));
  CHECK(ValueAt(log_sum_exp, 0) == Approx(std::log(double{kKeys})).margin(2e-5));
  CHECK(ValueAt(log_sum_exp, 2) == Approx(std::log(double{kKeys})).margin(2e-5));
}

TEST_CASE("one query with large scores leaves all others right") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  for (const Case& test :
       {Case{"", {40, 3}, {50, 33}, 2, 64}, Case{"causal", {40}, {40}, 2, 32, true},
        Case{"several tiles", {70}, {150}, 2, 32},
        Case{"dropout", {40}, {50}, 2, 64, false, 0.3f}}) {
    INFO(test.name << ", " << Name(dtype));
    Fixture x(test, dtype, 1.0);
    // The last query of the first sequence, and of its heads the first.
    Values stored = ValuesOf(x.q_store);
    const int64_t row = (test.queries[0] - 1) * x.q_store.dim(1);
    for (int64_t c = 0; c < test.head_dim; ++c) stored[static_cast<size_t>(row + c)] *= 256.0;
    x.q_store = FromValues(x.q_store.shape(), dtype, stored);
    x.problem.q = ValuesOf(x.Part(x.q_store, 0));
    x.Forward();
    const AttentionResult expected = ReferenceAttention(x.problem);
    CHECK(*std::max_element(expected.log_sum_exp.begin(), expected.log_sum_exp.end()) > 45.0);
    CHECK(ErrorOf(x.out, expected.out) <= ToleranceOf(dtype));
    CHECK(ErrorOf(x.log_sum_exp, expected.log_sum_exp) <= ToleranceOf(DType::kFloat32));
  }
}

// While the maximum stays, the sums must not shrink, by however little: long sequences have many
// tiles. In float, 7200 log2 e is off by 4e-4.
TEST_CASE("equal scores weigh early keys as late ones") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  constexpr int32_t kKeys = 1024;
  const Tensor q = Filled({1, 64}, dtype, 3.0);
  const Tensor k = Filled({kKeys, 64}, dtype, 5.0);
  Values halves(size_t{kKeys} * 64, 1.0);
  std::fill(halves.begin() + kKeys * 32, halves.end(), -1.0);
  const Tensor v = FromValues({kKeys, 64}, dtype, halves);
  Tensor out = Filled({1, 64}, dtype, 77.0);
  Tensor log_sum_exp = Filled({1, 1}, DType::kFloat32, 77.0);
  Stream stream(TestDevice());
  AttentionForward(q, k, v, Pack({1}), Pack({kKeys}), {.scale = 7.5f}, out, log_sum_exp, stream);
  stream.Synchronize();
  INFO(Name(dtype));
  for (const double value : ValuesOf(out)) REQUIRE(std::abs(value) <= 1e-5);
}

TEST_CASE("scores beyond float's range count nothing, whichever keys have them") {
  if (TestDevice().type == DeviceType::kCuda) return;  // GPUs take the first keys' as they are
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
  const int64_t head_dim = GENERATE(16, 64);
  for (const size_t broken : {0, 72}) {  // the first 192 of 264 keys, a tile, or the last
    INFO(Name(dtype) << ", " << head_dim << ", " << broken);
    const auto columns = static_cast<size_t>(head_dim);
    Values k(264 * columns, 0.0);
    Values v(264 * columns, 0.0);
    double expected = 0.0;
    for (size_t key = 0; key < 264; ++key) {
      const bool is_broken = key >= broken && key < broken + 192;
      if (is_broken) std::fill_n(k.begin() + static_cast<int64_t>(key * columns), columns, -1e30);
      v[key * columns] = static_cast<double>(key % 11) - 3.0;
      if (!is_broken) expected += v[key * columns] / 72.0;
    }
    Tensor out = Filled({1, head_dim}, dtype, 77.0);
    Tensor log_sum_exp = Filled({1, 1}, DType::kFloat32, 77.0);
    Stream stream;
    AttentionForward(FromValues({1, head_dim}, dtype, Values(columns, 1e30)),
                     FromValues({264, head_dim}, dtype, k), FromValues({264, head_dim}, dtype, v),
                     Pack({1}), Pack({264}), {}, out, log_sum_exp, stream);
    CHECK(ValueAt(out, 0) == Approx(expected).epsilon(ToleranceOf(dtype)));
    CHECK(ValueAt(log_sum_exp, 0) == Approx(std::log(72.0)).epsilon(1e-5));
  }
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
  CHECK_THROWS_WITH(run(x, {4}, {4}, {.num_heads = 3}),
                    Catch::Contains("must be a multiple of num_heads"));
  CHECK_THROWS_WITH(run(x, {3}, {4}, {.num_heads = 2}), Catch::Contains("q is [tokens, hidden]"));
  CHECK_THROWS_WITH(run(x, {4}, {5}, {.num_heads = 2}), Catch::Contains("k is [tokens, hidden]"));
  CHECK_THROWS_WITH(run(x, {2, 2}, {4}, {.num_heads = 2}),
                    Catch::Contains("as many key sequences as query sequences"));
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
