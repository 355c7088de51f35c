// reduce_test.cc - column sums, total sums and the gradient norm.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/reduce.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
const Shape kShapes[] = {{1, 1},    {3, 31},    {20, 33},  {5, 127}, {2, 129},
                         {2, 1023}, {300, 257}, {37, 264}, {1100, 9}};

TEST_CASE("column sums are added to what is there") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), shape);
    const Tensor x = Strided(Random(shape, dtype, 1));
    const Values expected = Plus(ColumnSums(ValuesOf(x), shape[1]), Values(shape[1], 2.0));
    for (const Tensor& in : {x, Strided(x, Margins::kAligned), Copy(x)}) {
      Tensor sums = Filled({shape[1]}, kF32, 2);
      AccumulateColumnSums(in, sums, stream);
      CHECK(Difference(sums, expected) < 1e-5);
    }
  }
  // So many rows that a thread of the GPU takes more than it loads at a time.
  for (const Shape& shape : {Shape{17001, 8}, Shape{17001, 3}}) {
    const Tensor x = Random(shape, dtype, 1);
    Tensor sums = Filled({shape[1]}, kF32, 0);
    AccumulateColumnSums(x, sums, stream);
    CHECK(Difference(sums, ColumnSums(ValuesOf(x), shape[1])) < 1e-5);
  }
  Tensor sums = Filled({8}, kF32, 2);
  AccumulateColumnSums(Filled({0, 8}, kF32, 0), sums, stream);
  CHECK(ValuesOf(sums) == Values(8, 2.0));
}

TEST_CASE("a sum of everything is double inside") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const DType total_type = GENERATE(as<DType>{}, kF32, DType::kFloat64);
  Stream stream(TestDevice());
  Tensor total = Filled({1}, total_type, 0);
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), shape);
    const Tensor x = Random(shape, dtype, 1);
    Sum(x, total, stream);
    const double expected = Dot(ValuesOf(x), Values(static_cast<size_t>(x.elements()), 1.0));
    const double tolerance = total_type == kF32 ? 1e-6 : 1e-12;
    CHECK(std::abs(ValueAt(total, 0) - expected) <= tolerance * (1.0 + std::abs(expected)));
    for (const Tensor& in : {Strided(x), Strided(x, Margins::kAligned)}) {
      Sum(in, total, stream);
      CHECK(std::abs(ValueAt(total, 0) - expected) <= tolerance * (1.0 + std::abs(expected)));
    }
  }
  // In float the ones would be lost.
  Tensor x = Filled({100001}, kF32, 1);
  SetAt(x, 50000, 1e9);
  Tensor exact = Filled({1}, DType::kFloat64, 0);
  Sum(x, exact, stream);
  CHECK(ValueAt(exact, 0) == 1e9 + 100000.0);
  Sum(Filled({0}, kF32, 0), exact, stream);
  CHECK(ValueAt(exact, 0) == 0.0);
}

TEST_CASE("the sum of squares counts what is not finite") {
  Stream stream(TestDevice());
  Tensor out = Filled({2}, DType::kFloat64, 7);
  for (const int64_t n : {0, 1, 15, 33, 1023, 100003}) {
    CAPTURE(n);
    Tensor x = Random({n}, kF32, 1);
    SumOfSquares(x, out, stream);
    const double expected = Dot(ValuesOf(x), ValuesOf(x));
    CHECK(std::abs(ValueAt(out, 0) - expected) <= 1e-12 * (1.0 + expected));
    CHECK(ValueAt(out, 1) == 0.0);
    AccumulateSumOfSquares(x, out, stream);
    CHECK(std::abs(ValueAt(out, 0) - 2.0 * expected) <= 2e-12 * (1.0 + expected));
    if (n == 0) continue;
    SetAt(x, n - 1, 1e30);  // the square is beyond float
    SumOfSquares(x, out, stream);
    CHECK(std::abs(ValueAt(out, 0) / 1e60 - 1.0) < 1e-6);
    CHECK(ValueAt(out, 1) == 0.0);
    SetAt(x, n - 1, std::numeric_limits<double>::infinity());
    SetAt(x, 0, std::nan(""));
    if (n > 10) SetAt(x, 7, -std::numeric_limits<double>::infinity());
    SumOfSquares(x, out, stream);
    CHECK(ValueAt(out, 1) == (n > 10 ? 3.0 : 1.0));
    AccumulateSumOfSquares(x, out, stream);
    CHECK(ValueAt(out, 1) == (n > 10 ? 6.0 : 2.0));
    CHECK(!std::isfinite(ValueAt(out, 0)));
  }
}

TEST_CASE("a sum of everything takes every element of a long tensor") {
  Stream stream(TestDevice());
  const Tensor x = Filled({2300003}, kF32, 1);
  Tensor total = Filled({1}, DType::kFloat64, 0);
  Sum(x, total, stream);
  CHECK(ValueAt(total, 0) == 2300003.0);
}

TEST_CASE("sums have the same bits on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    const Tensor x = Random({1500, 257}, kF32, 1);
    std::vector<Tensor> out = {Filled({257}, kF32, 0), Filled({1}, DType::kFloat64, 0),
                               Filled({2}, DType::kFloat64, 0)};
    AccumulateColumnSums(x, out[0], stream);
    Sum(x, out[1], stream);
    SumOfSquares(x, out[2], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("sums refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor x = Random({4, 8}, kF32, 1);
  Tensor sums = Filled({9}, kF32, 0);
  CHECK_THAT(MessageOf([&] { AccumulateColumnSums(x, sums, stream); }),
             Catch::Contains("AccumulateColumnSums: sums is [9], must be [8]"));
  CHECK_THAT(MessageOf([&] { SumOfSquares(x, sums, stream); }),
             Catch::Contains("out is [9], must be [2]"));
  CHECK_THAT(MessageOf([&] { SumOfSquares(Strided(x), sums, stream); }),
             Catch::Contains("x must be contiguous"));
  Tensor total = Filled({1}, DType::kBFloat16, 0);
  CHECK_THAT(MessageOf([&] { Sum(x, total, stream); }), Catch::Contains("total is bfloat16"));
}

}  // namespace
}  // namespace dtrain
