// simd_test.cc - the vector functions of every compiled instruction set against scalar ones.
// SPDX-License-Identifier: Apache-2.0
#include "base/simd_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

struct MathResult {
  explicit MathResult(size_t n)
      : y(n),
        rounded(n),
        log(n),
        reciprocal(n),
        wide(n),
        sums(n / 16),
        maxima(n / 16),
        row_sums(n) {}
  std::vector<float> y, rounded, log, reciprocal, wide, sums, maxima, row_sums;
  int64_t lanes = 0;
};

template <typename T>
MathResult RunMath(const std::vector<float>& x) {
  MathResult r(x.size());
  std::vector<T> narrow(x.size());
  SimdMathCpu<T>({.x = x.data(),
                  .count = static_cast<int64_t>(x.size()),
                  .y = r.y.data(),
                  .rounded = r.rounded.data(),
                  .log = r.log.data(),
                  .reciprocal = r.reciprocal.data(),
                  .narrow = narrow.data(),
                  .wide = r.wide.data(),
                  .sums = r.sums.data(),
                  .maxima = r.maxima.data(),
                  .row_sums = r.row_sums.data(),
                  .lanes = &r.lanes});
  return r;
}

TEST_CASE("exp is within 2e-7 of the exact value over the whole range") {
  std::vector<float> x;
  for (int i = 0; i < 128175; ++i) x.push_back(-86.9f + 0.00137f * static_cast<float>(i));
  const MathResult r = RunMath<float>(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(double{x[i]});
    worst = std::max(worst, std::abs(double{r.y[i]} - exact) / exact);
  }
  CHECK(worst <= 2e-7);
}

TEST_CASE("exp of the special values") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const MathResult r = RunMath<float>(
      {-infinity, infinity, nan, -1e30f, -88.0f, -104.0f, 0.0f, 88.7f, 89.0f, 1e30f});
  CHECK(r.y[0] == 0.0f);
  CHECK(r.y[1] == infinity);
  CHECK(std::isnan(r.y[2]));
  CHECK(r.y[3] == 0.0f);
  CHECK(r.y[4] == 0.0f);
  CHECK(r.y[5] == 0.0f);
  CHECK(r.y[6] == 1.0f);
  CHECK(std::isfinite(r.y[7]));
  CHECK(r.y[8] == infinity);
  CHECK(r.y[9] == infinity);
}

TEST_CASE("powers of 2 for bfloat16 are within a hundredth of its rounding, and exact at 0") {
  std::vector<float> x = {0.0f};
  for (int i = 0; i < 252001; ++i) x.push_back(-125.0f + 0.001f * static_cast<float>(i));
  MathResult r = RunMath<float>(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp2(double{x[i]});
    worst = std::max(worst, std::abs(double{r.rounded[i]} - exact) / exact);
  }
  CHECK(worst <= 1e-5);
  CHECK(r.rounded[0] == 1.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  r = RunMath<float>({-infinity, infinity, std::numeric_limits<float>::quiet_NaN(), -1e30f, 1e30f});
  CHECK(r.rounded[0] == 0.0f);
  CHECK(r.rounded[1] == infinity);
  CHECK(std::isnan(r.rounded[2]));
  CHECK(r.rounded[3] == 0.0f);
  CHECK(r.rounded[4] == infinity);
}

TEST_CASE("logarithms are within 2e-7 of their size or of 1") {
  std::vector<float> x;
  for (int i = 0; i < 253001; ++i) x.push_back(std::exp2(-126.0f + 0.001f * static_cast<float>(i)));
  for (int i = 0; i < 20001; ++i) x.push_back(0.5f + 1e-4f * static_cast<float>(i));
  const MathResult r = RunMath<float>(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::log(double{x[i]});
    worst = std::max(worst, std::abs(double{r.log[i]} - exact) / std::max(1.0, std::abs(exact)));
  }
  CHECK(worst <= 2e-7);
  CHECK(RunMath<float>({1.0f}).log[0] == 0.0f);
}

TEST_CASE("reciprocals are within two roundings, and their special values exact") {
  std::vector<float> x;
  for (int i = 0; i < 20011; ++i) x.push_back(std::exp2(0.006f * static_cast<float>(i)) - 1.0f);
  const MathResult r = RunMath<float>(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = 1.0 / double{1.0f + x[i]};
    worst = std::max(worst, std::abs(double{r.reciprocal[i]} - exact) / exact);
  }
  CHECK(worst <= 1.2e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  const MathResult special =
      RunMath<float>({0.0f, -1.0f, infinity, std::numeric_limits<float>::quiet_NaN()});
  CHECK(special.reciprocal[0] == 1.0f);
  CHECK(special.reciprocal[1] == 0.5f);
  CHECK(special.reciprocal[2] < 2e-38f);
  CHECK(std::isnan(special.reciprocal[3]));
}

TEST_CASE("bfloat16 stores round as the scalar type does") {
  std::vector<float> x;
  RandomStream random({.seed = 5});
  for (int i = 0; i < 5003; ++i) {
    const uint32_t word = random.NextUint32();
    float value;
    std::memcpy(&value, &word, sizeof(value));
    x.push_back(value);
  }
  const MathResult r = RunMath<BFloat16>(x);
  int wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected(BFloat16{x[i]});
    const bool is_tiny = std::abs(x[i]) < std::numeric_limits<float>::min() && r.wide[i] == 0.0f;
    wrong += !(r.wide[i] == expected || (std::isnan(r.wide[i]) && std::isnan(expected)) || is_tiny);
  }
  CHECK(wrong == 0);
}

TEST_CASE("horizontal sums and maxima see every lane") {
  std::vector<float> x(16 * 16);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 16; ++j) x[16 * i + j] = i == j ? 7.0f : -static_cast<float>(j);
  }
  const MathResult r = RunMath<float>(x);
  for (size_t i = 0; i < 16; ++i) {
    CHECK(r.maxima[i] == 7.0f);
    CHECK(r.sums[i] == std::accumulate(x.begin() + static_cast<int64_t>(16 * i),
                                       x.begin() + static_cast<int64_t>(16 * i + 16), 0.0f));
  }
}

TEST_CASE("sums of several rows at once are the rows' sums") {
  std::vector<float> x(16 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 257);
  const MathResult r = RunMath<float>(x);
  REQUIRE(r.lanes > 0);
  for (int64_t row = 0; row < 256 / r.lanes; ++row) {
    const auto begin = x.begin() + row * r.lanes;
    REQUIRE(r.row_sums[static_cast<size_t>(row)] == std::accumulate(begin, begin + r.lanes, 0.0f));
  }
}

uint16_t HalfOf(const std::array<uint32_t, 4>& words, int64_t half) {
  const uint32_t word = words[static_cast<size_t>(half / 2)];
  return static_cast<uint16_t>((half % 2 == 0 ? word : word >> 16) & 0x7fffu);
}

TEST_CASE("dropout draws are the lower 15 bits of the scalar Philox's halves") {
  const RandomKey key{.seed = 0x123456789abcdef0u, .step = 77, .site = 0xfedcba98u};
  for (const int64_t count : {1, 2, 3, 7, 8, 37}) {
    for (const uint64_t first : {uint64_t{0}, uint64_t{12345}, uint64_t{0xfffffffe}}) {
      std::vector<uint16_t> draws(static_cast<size_t>(count * 8) + 256, 0xabcd);
      int64_t padding = 0;
      SimdDrawCpu<float>(
          {.key = key, .first = first, .count = count, .draws = draws.data(), .padding = &padding});
      int wrong = 0;
      for (int64_t e = 0; e < count * 8; ++e) {
        const auto words = Philox<7>(key, first + static_cast<uint64_t>(e / 8));
        wrong += draws[static_cast<size_t>(e)] != HalfOf(words, e % 8);
      }
      CHECK(wrong == 0);
      for (size_t i = static_cast<size_t>(count * 8 + padding); i < draws.size(); ++i) {
        REQUIRE(draws[i] == 0xabcd);
      }
    }
  }
}

TEST_CASE("a draw of scores covers two queries and four keys of a block of 16 by 16") {
  const RandomKey key{.seed = 0x123456789abcdef0u, .step = 77, .site = 0xfedcba98u};
  const uint32_t first_row = 0xfffffff9;  // the numbers of rows begin again at 0
  const uint64_t first_draw = 123456;
  const uint32_t row_step = 3;
  for (const int64_t blocks : {1, 2, 3, 8}) {
    const int64_t row = (blocks + 1) / 2 * 32;
    std::vector<uint16_t> draws(static_cast<size_t>(16 * row) + 256, 0xabcd);
    int64_t padding = 0;
    SimdDrawCpu<float>({.key = key,
                        .first = first_draw,
                        .count = blocks,
                        .first_row = first_row,
                        .row_step = row_step,
                        .row = row,
                        .draws = draws.data(),
                        .padding = &padding});
    int wrong = 0;
    for (int64_t query = 0; query < 16; ++query) {
      for (int64_t k = 0; k < blocks * 16; ++k) {
        const auto draw = static_cast<uint64_t>(k / 16 * 4 + k % 8 / 2);
        const uint32_t number = first_row + static_cast<uint32_t>(query % 8) * row_step;
        const auto words = Philox<7>(key, uint64_t{number} * 1000 + first_draw + draw);
        wrong += draws[static_cast<size_t>(query * row + k)] !=
                 HalfOf(words, 2 * (query / 8 + k / 8 % 2 * 2) + k % 2);
      }
    }
    CHECK(wrong == 0);
    for (size_t i = static_cast<size_t>(16 * row); i < draws.size(); ++i) {
      REQUIRE(draws[i] == 0xabcd);
    }
  }
}

}  // namespace
}  // namespace dtrain
