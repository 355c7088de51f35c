// cast_test.cc - casts, fills, elementwise sums, gathering and scattering of rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/cast.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBF16 = DType::kBFloat16;
const Shape kShapes[] = {{1, 1},    {3, 31},    {20, 33},  {5, 127}, {2, 129},
                         {2, 1023}, {300, 257}, {37, 264}, {1100, 9}};
TEST_CASE("casts round as the scalar conversion does") {
  Stream stream(TestDevice());
  const DType from = GENERATE(from_range(FloatTypes()));
  const DType to = GENERATE(from_range(FloatTypes()));
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(from), Name(to), shape);
    Tensor x = Random(shape, from, 1);
    const double infinity = std::numeric_limits<double>::infinity();
    SetAt(x, 0, infinity);
    if (shape[1] > 5) {
      SetAt(x, 1, std::nan(""));
      SetAt(x, 2, 1.00390625);  // halfway between bfloat16s, even below
      SetAt(x, 3, 1.01171875);  // even above
      SetAt(x, 4, 3.4e38);      // rounds to infinity
    }
    const Tensor expected = FromValues(shape, to, ValuesOf(x));
    Tensor y = Filled(shape, to, 0);
    Cast(x, y, stream);
    CHECK(Difference(y, ValuesOf(expected)) == 0.0);
    for (const Margins margins : {Margins::kOdd, Margins::kAligned}) {
      Tensor strided = Strided(Filled(shape, to, 0), margins);
      Cast(Strided(x, margins), strided, stream);
      CHECK(Difference(strided, ValuesOf(expected)) == 0.0);
      CHECK(MarginsUntouched(strided));
    }
  }
}

TEST_CASE("zero, scale, add and moving average") {
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(shape);
    Tensor x = Random(shape, kF32, 1);
    const Values before = ValuesOf(x);
    Values expected = before;
    Scale(x, -2.5f, stream);
    for (double& v : expected) v *= -2.5;
    CHECK(Difference(x, expected) < 1e-7);
    const Tensor y = Random(shape, kF32, 2);
    Tensor average = Copy(y);
    MovingAverage(x, Filled({1}, kF32, 0.9), average, stream);
    const Values y_values = ValuesOf(y);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = 0.9 * y_values[i] + 0.1 * expected[i];
    }
    CHECK(Difference(average, expected) < 1e-6);
    const Tensor held = Copy(average);
    MovingAverage(x, Filled({1}, kF32, 1), average, stream);
    CHECK(SameBits(average, held));
    Zero(x, stream);
    CHECK(ValuesOf(x) == Values(static_cast<size_t>(x.elements()), 0.0));
  }
  Tensor ids = RandomIds(1000, 5, 1);
  Zero(ids, stream);
  CHECK(ValuesOf(ids) == Values(1000, 0.0));
}

TEST_CASE("ranges are set to zero, and nothing beside them") {
  Stream stream(TestDevice());
  // More than one launch takes, with empty, neighbouring, unaligned and large ones.
  constexpr int64_t kElements = 200'000;
  std::vector<ElementRange> ranges = {{0, 0}, {3, 4}, {4, 70}, {100'000, 180'001}};
  for (int64_t i = 0; i < 300; ++i) ranges.push_back({200 + 17 * i, 200 + 17 * i + i % 9});
  Tensor x = Random({kElements}, kF32, 1);
  Values expected = ValuesOf(x);
  ZeroRanges(x, ranges, stream);
  for (const ElementRange& range : ranges) {
    std::fill(expected.begin() + range.begin, expected.begin() + range.end, 0.0);
  }
  CHECK(ValuesOf(x) == expected);
  ZeroRanges(x, {}, stream);
  CHECK(ValuesOf(x) == expected);
  const std::vector<ElementRange> outside = {{kElements - 1, kElements + 1}};
  CHECK_THAT(MessageOf([&] { ZeroRanges(x, outside, stream); }), Catch::Contains("ZeroRanges"));
}

TEST_CASE("every element of a long tensor is scaled once") {
  Stream stream(TestDevice());
  // More than the threads of the GPU's largest grid take in one turn, and not whole pieces.
  const Shape shape = {2300003};
  Tensor x = Filled(shape, kF32, 1);
  Scale(x, 3.0f, stream);
  CHECK(SameBits(x, Filled(shape, kF32, 3)));
}

TEST_CASE("adding rounds the sum once") {
  Stream stream(TestDevice());
  const DType dtype = GENERATE(from_range(FloatTypes()));
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), shape);
    const Tensor x = Random(shape, dtype, 1);
    const Tensor y = Random(shape, dtype, 2);
    const Tensor expected = FromValues(shape, dtype, Plus(ValuesOf(x), ValuesOf(y)));
    Tensor sum = Copy(y);
    AddTo(x, sum, stream);
    CHECK(SameBits(sum, expected));
    for (const Margins margins : {Margins::kOdd, Margins::kAligned}) {
      Tensor strided = Strided(y, margins);
      AddTo(x, strided, stream);
      CHECK(ValuesOf(strided) == ValuesOf(expected));
      CHECK(MarginsUntouched(strided));
    }
  }
}

TEST_CASE("rows are gathered, and scattered back in order") {
  Stream stream(TestDevice());
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), shape, static_cast<int>(margins));
    const Tensor x = Strided(Random(shape, dtype, 1), margins);
    const Tensor rows = RandomIds(40, static_cast<uint32_t>(shape[0]), 2);
    Tensor out = Strided(Filled({40, shape[1]}, dtype, 0), margins);
    GatherRows(x, rows, out, stream);
    CHECK(MarginsUntouched(out));
    Tensor back = Strided(Random(shape, dtype, 3), margins);
    Tensor expected = Copy(back);
    for (int64_t i = 0; i < 40; ++i) {
      const int64_t r = static_cast<int64_t>(ValueAt(rows, i));
      for (int64_t c = 0; c < shape[1]; ++c) {
        const double value = ValueAt(x, r * x.row_stride() + c);
        REQUIRE(ValueAt(out, i * out.row_stride() + c) == value);
        SetAt(expected, r * shape[1] + c, ValueAt(expected, r * shape[1] + c) + value);
      }
    }
    ScatterAddRows(out, rows, back, stream);
    CHECK(ValuesOf(back) == ValuesOf(expected));
    CHECK(MarginsUntouched(back));
  }
  const Tensor table = FromValues({3, 2}, DType::kInt32, {1, 2, 3, 4, 5, 6});
  Tensor picked = Filled({2, 2}, DType::kInt32, 0);
  GatherRows(table, FromValues({2}, DType::kInt32, {2, 0}), picked, stream);
  CHECK(ValuesOf(picked) == Values{5, 6, 1, 2});
}

TEST_CASE("scattering gives the same bits on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    const Tensor x = Random({1000, 257}, kF32, 1);
    Tensor out = Filled({7, 257}, kF32, 0);
    ScatterAddRows(x, RandomIds(1000, 7, 2), out, stream);
    AddTo(x.Rows(0, 7), out, stream);
    return out;
  };
  Tensor one;
  Tensor two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  CHECK(SameBits(one, two));
}

TEST_CASE("casts and copies refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor x = Random({4, 8}, kF32, 1);
  Tensor narrow = Filled({4, 7}, kF32, 0);
  CHECK_THAT(MessageOf([&] { Cast(x, narrow, stream); }),
             Catch::Contains("Cast: y is [4, 7], must be [4, 8]"));
  CHECK_THAT(MessageOf([&] { AddTo(x, narrow, stream); }), Catch::Contains("AddTo: y is [4, 7]"));
  Tensor half = Filled({4, 8}, kBF16, 0);
  CHECK_THAT(MessageOf([&] { Scale(half, 2.0f, stream); }), Catch::Contains("must be float32"));
  Tensor view = Filled({4, 9}, kF32, 0).Columns(0, 8);
  CHECK_THAT(MessageOf([&] { Zero(view, stream); }), Catch::Contains("must be contiguous"));
  Tensor out = Filled({1, 8}, kF32, 0);
  if (TestDevice().type == DeviceType::kCpu) {  // a GPU's ids cannot be read
    CHECK_THAT(MessageOf([&] { GatherRows(x, FromValues({1}, DType::kInt32, {4}), out, stream); }),
               Catch::Contains("rows[0] is 4, must be in [0, 4)"));
  }
  CHECK_THAT(MessageOf([&] { ScatterAddRows(out, RandomIds(2, 1, 1), view, stream); }),
             Catch::Contains("one row index per row of x"));
}

}  // namespace
}  // namespace dtrain
