// gradient_buckets_test.cc - cuts, slices and marks of buckets, without communication.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/gradient_buckets.h"

#include <cstdint>
#include <vector>

#include "dtrain/base/check.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using internal::CutBuckets;
using internal::GradientBuckets;

std::vector<GradientRange> Parameters(const std::vector<int64_t>& sizes) {
  std::vector<GradientRange> parameters;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parameters.push_back({"p" + std::to_string(parameters.size()), begin, begin + size});
    begin += size;
  }
  return parameters;
}

TEST_CASE("the first bucket is small, later ones are larger, a huge parameter is alone") {
  const auto parameters = Parameters({2, 2, 3, 3, 100, 1});
  CHECK(CutBuckets(parameters, {.bytes = 24, .first_bytes = 16}) ==
        std::vector<int>{0, 0, 1, 1, 2, 3});
}

TEST_CASE("a bucket is complete with its last mark, whatever the order, and again after a reset") {
  GradientBuckets buckets(Parameters({2, 2, 4}), 8, {.bytes = 16, .first_bytes = 16});
  REQUIRE(buckets.count() == 2);
  for (int step = 0; step < 2; ++step) {
    CHECK(buckets.Mark(2));
    CHECK_FALSE(buckets.Mark(1));
    CHECK_FALSE(buckets.IsComplete(0));
    CHECK_THROWS_WITH(buckets.CheckAllMarked(), Catch::Contains("not marked ready: p0"));
    CHECK(buckets.Mark(0));
    CHECK_THROWS_WITH(buckets.Mark(0), Catch::Contains("p0 was marked ready twice"));
    buckets.CheckAllMarked();
    buckets.Reset();
  }
}

TEST_CASE("scattered buckets and slices begin at multiples of a block and cover everything") {
  const GradientBuckets buckets(Parameters({5, 5, 13}), 23,
                                {.bytes = 20, .first_bytes = 20, .scatter_block = 4});
  REQUIRE(buckets.count() == 3);
  CHECK(buckets.begin_of(1) == 4);
  CHECK(buckets.begin_of(2) == 8);
  CHECK(buckets.begin_of(3) == 23);
  CHECK(buckets.SliceOffsets(2, 3) == std::vector<int64_t>{8, 12, 16, 23});
  CHECK(buckets.SliceOffsets(0, 3) == std::vector<int64_t>{0, 0, 0, 4});
}

TEST_CASE("equal slices differ in what the last bucket has at its end") {
  const GradientBuckets buckets(
      Parameters({13, 14, 30}), 57,
      {.bytes = 20, .first_bytes = 20, .scatter_block = 4, .equal_slices = 3});
  REQUIRE(buckets.count() == 3);
  CHECK(buckets.SliceOffsets(0, 3) == std::vector<int64_t>{0, 4, 8, 12});
  CHECK(buckets.SliceOffsets(1, 3) == std::vector<int64_t>{12, 16, 20, 24});
  CHECK(buckets.SliceOffsets(2, 3) == std::vector<int64_t>{24, 32, 40, 57});
  CHECK_THROWS_AS(buckets.SliceOffsets(0, 2), CheckError);
  const GradientBuckets small(
      Parameters({5, 5}), 10,
      {.bytes = 20, .first_bytes = 20, .scatter_block = 4, .equal_slices = 3});
  CHECK(small.SliceOffsets(0, 3) == std::vector<int64_t>{0, 0, 0, 0});
  CHECK(small.SliceOffsets(1, 3) == std::vector<int64_t>{0, 0, 0, 10});
}

TEST_CASE("parameters with a gap, or that do not reach the end, are refused") {
  auto gap = Parameters({2, 2});
  gap[1].begin = 3;
  CHECK_THROWS_AS(GradientBuckets(gap, 4, {}), CheckError);
  CHECK_THROWS_AS(GradientBuckets(Parameters({2, 2}), 5, {}), CheckError);
}

}  // namespace
}  // namespace dtrain
