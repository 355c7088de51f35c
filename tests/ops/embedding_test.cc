// embedding_test.cc - token embeddings, positions and their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/embedding.h"

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/dropout.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;

// Rows of whole groups of 8 columns are aligned, others are not.
Tensor Lay(const Tensor& x) { return x.dim(1) % 8 == 0 ? StridedAligned(x) : Strided(x); }

// scale * table[ids] + positions[position_ids] before dropout, linear in table and positions.
Values Embed(const Values& table, const Values& positions, const Values& ids,
             const Values& position_ids, const EmbeddingOptions& options, size_t columns) {
  Values out(ids.size() * columns);
  for (size_t t = 0; t < ids.size(); ++t) {
    for (size_t c = 0; c < columns; ++c) {
      double value = 0.0;
      if (ids[t] != options.zero_id) {
        value = double{options.scale} * table[static_cast<size_t>(ids[t]) * columns + c];
      }
      if (!positions.empty()) {
        value += positions[static_cast<size_t>(position_ids[t]) * columns + c];
      }
      out[t * columns + c] = value;
    }
  }
  return reference::ApplyDropout(options.dropout, out);
}

TEST_CASE("embedding matches the reference and finite differences") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool with_positions = GENERATE(true, false);
  const float probability = GENERATE(0.0f, 0.2f);
  const auto [tokens, columns] = GENERATE(table<int64_t, int64_t>(
      {{1, 1}, {7, 31}, {40, 33}, {9, 127}, {3, 129}, {2, 1023}, {40, 8}, {33, 64}, {2, 1048}}));
  CAPTURE(Name(dtype), with_positions, probability, tokens, columns);
  const EmbeddingOptions options = {
      .scale = 3.0f, .zero_id = 2, .dropout = {probability, {.seed = 4, .step = 5, .site = 6}}};
  constexpr int64_t kVocab = 5;
  constexpr int64_t kLength = 4;
  Stream stream(TestDevice());
  const Tensor ids = RandomIds(tokens, kVocab, 1);
  const Tensor position_ids = RandomIds(tokens, kLength, 2);
  const Tensor table = Lay(Random({kVocab, columns}, dtype, 3));
  const Tensor positions = with_positions ? Lay(Random({kLength, columns}, dtype, 4)) : Tensor();
  Tensor out = Lay(Random({tokens, columns}, dtype, 5));
  EmbeddingForward(ids, position_ids, table, positions, options, out, stream);
  const Values ids_values = ValuesOf(ids);
  const Values position_values = ValuesOf(position_ids);
  const Values positions_values = with_positions ? ValuesOf(positions) : Values();
  const size_t width = static_cast<size_t>(columns);
  const auto embed = [&](const Values& at_table, const Values& at_positions) {
    return Embed(at_table, at_positions, ids_values, position_values, options, width);
  };
  CHECK(Difference(out, embed(ValuesOf(table), positions_values)) < ToleranceOf(dtype));
  CHECK(MarginsUntouched(out));

  const Tensor d_out = Lay(Random({tokens, columns}, dtype, 6));
  const Values d_values = ValuesOf(d_out);
  Tensor d_table = Lay(Filled({kVocab, columns}, kF32, 1));
  Tensor d_positions = with_positions ? Filled({kLength, columns}, kF32, 2) : Tensor();
  EmbeddingBackward(d_out, ids, position_ids, options, d_table, d_positions, stream);
  CHECK(MarginsUntouched(d_table));
  if (columns > 200) return;  // too many difference quotients
  // Embed is linear, so a large step is exact.
  Values expected =
      NumericGradient([&](const Values& v) { return Dot(embed(v, positions_values), d_values); },
                      ValuesOf(table), 1.0);
  for (double& v : expected) v += 1;
  CHECK(Difference(d_table, expected) < 1e-5);
  if (!with_positions) return;
  const Values table_values = ValuesOf(table);
  expected = NumericGradient([&](const Values& v) { return Dot(embed(table_values, v), d_values); },
                             positions_values, 1.0);
  for (double& v : expected) v += 2;
  CHECK(Difference(d_positions, expected) < 1e-5);
}

// What EmbeddingBackward adds to a table of `rows` rows.
Values RowSums(const Tensor& d_out, const Values& ids, int64_t rows, double zero_id, double scale,
               const Dropout& dropout) {
  const size_t columns = static_cast<size_t>(d_out.dim(1));
  const Values d = reference::ApplyDropout(dropout, ValuesOf(d_out));
  Values sums(static_cast<size_t>(rows) * columns);
  for (size_t e = 0; e < d.size(); ++e) {
    const double id = ids[e / columns];
    if (id != zero_id) sums[static_cast<size_t>(id) * columns + e % columns] += scale * d[e];
  }
  return sums;
}

TEST_CASE("embedding backward adds up rare and very frequent tokens") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const auto [tokens, columns] =
      GENERATE(table<int64_t, int64_t>({{16, 8}, {17, 8}, {2500, 16}, {1025, 5}, {40, 1048}}));
  CAPTURE(Name(dtype), tokens, columns);
  constexpr int64_t kVocab = 600;
  const EmbeddingOptions options = {
      .scale = 3.0f, .zero_id = 77, .dropout = {0.1f, {.seed = 4, .step = 5, .site = 6}}};
  Tensor ids = RandomIds(tokens, kVocab, 1);
  Tensor position_ids = RandomIds(tokens, 2, 2);
  for (int64_t t = 0; t < tokens; ++t) {
    if (t % 2 == 0) SetAt(ids, t, kVocab - 1);
    if (t % 9 == 1) SetAt(ids, t, 77);
    if (t < 9) SetAt(position_ids, t, 2);
  }
  const Tensor d_out = Lay(Random({tokens, columns}, dtype, 6));
  const auto run = [&, width = columns] {
    Stream stream(TestDevice());
    std::vector<Tensor> d = {Lay(Filled({kVocab, width}, kF32, 1)),
                             Lay(Filled({3, width}, kF32, 2))};
    EmbeddingBackward(d_out, ids, position_ids, options, d[0], d[1], stream);
    return d;
  };
  const std::vector<Tensor> d = run();
  Values expected = RowSums(d_out, ValuesOf(ids), kVocab, 77, 3.0, options.dropout);
  for (double& v : expected) v += 1.0;
  CHECK(Difference(d[0], expected) < 3e-5);
  CHECK(MarginsUntouched(d[0]));
  expected = RowSums(d_out, ValuesOf(position_ids), 3, -1, 1.0, options.dropout);
  for (double& v : expected) v += 2.0;
  CHECK(Difference(d[1], expected) < 3e-5);
  CHECK(MarginsUntouched(d[1]));
  const std::vector<Tensor> again = run();
  CHECK(ValuesOf(again[0]) == ValuesOf(d[0]));
  CHECK(ValuesOf(again[1]) == ValuesOf(d[1]));
}

TEST_CASE("embedding backward adds in token order on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    const Tensor ids = RandomIds(3000, 10, 1);
    const Tensor d_out = Random({3000, 130}, kF32, 2);
    Tensor d_table = Filled({10, 130}, kF32, 0);
    Tensor absent;
    EmbeddingBackward(d_out, ids, {}, {.dropout = {0.1f, {.seed = 1}}}, d_table, absent, stream);
    return d_table;
  };
  Tensor one;
  Tensor two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  CHECK(SameBits(one, two));
}

TEST_CASE("no tokens embed as nothing") {
  Stream stream(TestDevice());
  const Tensor ids = Filled({0}, DType::kInt32, 0);
  Tensor out = Filled({0, 8}, kF32, 0);
  Tensor d_table = Filled({5, 8}, kF32, 2);
  Tensor absent;
  EmbeddingForward(ids, {}, d_table, {}, {}, out, stream);
  EmbeddingBackward(out, ids, {}, {}, d_table, absent, stream);
  CHECK(ValuesOf(d_table) == Values(40, 2.0));
}

TEST_CASE("sinusoids have sines in the first half and cosines in the second") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  Tensor table = Filled({600, 6}, dtype, 9);
  FillSinusoids(table, stream);
  for (int64_t p = 0; p < 600; ++p) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(p) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 6.0);
      const double tolerance = dtype == kF32 ? 1e-7 : 4e-3;
      REQUIRE(std::abs(ValueAt(table, p * 6 + i) - std::sin(angle)) < tolerance);
      REQUIRE(std::abs(ValueAt(table, p * 6 + 3 + i) - std::cos(angle)) < tolerance);
    }
  }
  Tensor odd = Filled({4, 5}, dtype, 0);
  CHECK_THAT(MessageOf([&] { FillSinusoids(odd, stream); }), Catch::Contains("must be even"));
}

TEST_CASE("embedding refuses ids outside its tables") {
  Stream stream(TestDevice());
  const Tensor table = Random({5, 8}, kF32, 1);
  const Tensor positions = Random({3, 8}, kF32, 2);
  Tensor out = Filled({2, 8}, kF32, 0);
  const auto message = [&](const Values& ids, const Values& position_ids) {
    return MessageOf([&] {
      EmbeddingForward(FromValues({2}, DType::kInt32, ids),
                       FromValues({2}, DType::kInt32, position_ids), table, positions, {}, out,
                       stream);
    });
  };
  CHECK(message({0, 4}, {0, 2}) == "");
  if (TestDevice().type == DeviceType::kCpu) {
    CHECK_THAT(message({0, 5}, {0, 2}), Catch::Contains("ids[1] is 5, must be in [0, 5)"));
    CHECK_THAT(message({-1, 4}, {0, 2}), Catch::Contains("ids[0] is -1, must be in [0, 5)"));
    CHECK_THAT(message({0, 4}, {0, 3}), Catch::Contains("position_ids[1] is 3, must be in [0, 3)"));
  }
  Tensor d_table = Filled({5, 8}, DType::kBFloat16, 0);
  Tensor absent;
  CHECK_THAT(MessageOf([&] {
               EmbeddingBackward(out, RandomIds(2, 5, 1), {}, {}, d_table, absent, stream);
             }),
             Catch::Contains("d_table is bfloat16, must be float32"));
}

}  // namespace
}  // namespace dtrain
