// cached_attention_test.cc - attention of incremental decoding against plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "dtrain/ops/attention.h"
#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/attention_reference.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

struct Case {
  int64_t rows, length;
  int num_heads;
  int64_t head_dim;
};

Sequences Uniform(int64_t count, int64_t length) {
  std::vector<int32_t> offsets = {0};
  for (int64_t i = 1; i <= count; ++i) offsets.push_back(static_cast<int32_t>(i * length));
  return Sequences(offsets);
}

// Rows of `hidden` values at the given slots.
Values Gather(const Values& cache, const Values& slots, int64_t hidden) {
  Values rows;
  for (const double slot : slots) {
    const auto begin = cache.begin() + static_cast<int64_t>(slot) * hidden;
    rows.insert(rows.end(), begin, begin + hidden);
  }
  return rows;
}

TEST_CASE("cached attention gathers the slots of its row") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool aligned = GENERATE(false, true);
  const Case test = GENERATE(values<Case>({{1, 1, 1, 16},
                                           {5, 33, 4, 32},
                                           {40, 31, 2, 5},
                                           {3, 127, 1, 33},
                                           {2, 150, 2, 64},
                                           {2, 9, 3, 24},
                                           {1, 70, 1, 128},
                                           {2, 20, 1, 256},
                                           {3, 5, 2, 8}}));
  CAPTURE(Name(dtype), aligned, test.rows, test.length, test.num_heads, test.head_dim);
  constexpr int64_t kCache = 37;
  const int64_t hidden = test.num_heads * test.head_dim;
  const auto lay = [&](const Tensor& x) { return aligned ? StridedAligned(x) : Strided(x); };
  const Tensor q = lay(Random({test.rows, hidden}, dtype, 1));
  const Tensor keys = lay(Random({kCache, hidden}, dtype, 2));
  const Tensor values = lay(Random({kCache, hidden}, dtype, 3));
  const Tensor slots =
      Strided(RandomIds(test.rows * test.length, kCache, 4).Reshape({test.rows, test.length}));
  Tensor out = lay(Filled({test.rows, hidden}, dtype, 9));
  Stream stream(TestDevice());
  CachedAttention(q, keys, values, slots, test.num_heads, out, stream);

  AttentionProblem expected;
  expected.queries = Uniform(test.rows, 1);
  expected.keys = Uniform(test.rows, test.length);
  expected.head_dim = test.head_dim;
  expected.options.num_heads = test.num_heads;
  expected.q = ValuesOf(q);
  expected.k = Gather(ValuesOf(keys), ValuesOf(slots), hidden);
  expected.v = Gather(ValuesOf(values), ValuesOf(slots), hidden);
  CHECK(Difference(out, ReferenceAttention(expected).out) < ToleranceOf(dtype));
  CHECK(MarginsUntouched(out));
}

TEST_CASE("cached attention stands large and infinite scores") {
  constexpr int64_t kLength = 70;
  Stream stream(TestDevice());
  const Tensor q = Filled({1, 16}, DType::kFloat32, 1);
  Tensor keys = Filled({kLength, 16}, DType::kFloat32, -std::numeric_limits<double>::infinity());
  Tensor values = Filled({kLength, 16}, DType::kFloat32, 7);
  Values all(kLength);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(i);
  for (int64_t c = 0; c < 16; ++c) {
    SetAt(keys, 33 * 16 + c, 1e6);
    SetAt(keys, 69 * 16 + c, 1e6);
    SetAt(values, 33 * 16 + c, 1);
    SetAt(values, 69 * 16 + c, 2);
  }
  Tensor out = Filled({1, 16}, DType::kFloat32, 9);
  CachedAttention(q, keys, values, FromValues({1, kLength}, DType::kInt32, all), 1, out, stream);
  CHECK(ValuesOf(out) == Values(16, 1.5));
}

TEST_CASE("cached attention refuses slots outside its cache") {
  Stream stream;
  std::vector<float> values(32);
  std::vector<int32_t> slots = {0, 1, 2, 4};
  const Tensor x = Tensor::View(values.data(), {4, 8});
  Tensor out = x;
  CHECK_THAT(MessageOf([&] {
               CachedAttention(x, x, x, Tensor::View(slots.data(), {4, 1}), 2, out, stream);
             }),
             Catch::Contains("slot 4 of row 3 is outside a cache of 4"));
}

}  // namespace
}  // namespace dtrain
