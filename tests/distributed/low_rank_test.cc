// low_rank_test.cc - orthonormal rows, and sums whose bits every instruction set has.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/low_rank.h"

#include <cstdint>
#include <vector>

#include "dtrain/distributed/internal/low_rank_kernel.h"
#include "testing/catch.h"
#include "testing/random_values.h"

namespace dtrain {
namespace {

// Products of rows with each other, at [a * count + b].
std::vector<double> GramOf(const std::vector<float>& rows, size_t count) {
  const size_t length = rows.size() / count;
  std::vector<double> gram(count * count);
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < count; ++b) {
      for (size_t i = 0; i < length; ++i) {
        gram[a * count + b] += double{rows[a * length + i]} * double{rows[b * length + i]};
      }
    }
  }
  return gram;
}

TEST_CASE("rows become orthonormal, and dependent ones zero") {
  constexpr size_t kLength = 101;
  std::vector<float> rows = RandomValues<float>(4 * kLength, 3);
  // The third is a mixture of the first two.
  for (size_t i = 0; i < kLength; ++i) {
    rows[2 * kLength + i] = 0.5f * rows[i] - 2.0f * rows[kLength + i];
  }
  internal::OrthonormaliseRows(rows.data(), 4, kLength);
  const std::vector<double> gram = GramOf(rows, 4);
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) {
      INFO(a << " and " << b);
      CHECK(gram[a * 4 + b] == Approx(a == b && a != 2 ? 1.0 : 0.0).margin(1e-5));
    }
  }
}

TEST_CASE("dependent rows become zero however long they are") {
  for (const size_t length : {4807, 16384, 50257}) {
    // Sums of numbers that are all alike lose the most to rounding.
    std::vector<float> rows;
    for (const float value : {0.3f, 7.0f, -1.1f, 0.013f}) rows.insert(rows.end(), length, value);
    for (size_t spike = 0; spike < 20; ++spike) {
      for (size_t row = 0; row < 4; ++row) rows[row * length + 37 * spike] *= 25.0f;
    }
    internal::OrthonormaliseRows(rows.data(), 4, static_cast<int64_t>(length));
    const std::vector<double> gram = GramOf(rows, 4);
    INFO(length);
    CHECK(gram[0] == Approx(1.0).margin(1e-5));
    for (size_t i = 1; i < gram.size(); ++i) CHECK(gram[i] == 0.0);
  }
}

TEST_CASE("sums of factors and projections have the same bits with every instruction set") {
  constexpr int kRank = 7;
  constexpr int64_t kWide = 11, kLong = 333;  // neither a multiple of a tile
  const std::vector<float> left = RandomValues<float>(kRank * kWide, 1, 0.5f);
  const std::vector<float> right = RandomValues<float>(kRank * kLong, 2, 0.5f);
  const auto product = [&](const auto& kernel) {
    std::vector<float> values(kWide * kLong);
    kernel(FactorProductArgs{.left = left.data(),
                             .right = right.data(),
                             .product = values.data(),
                             .rank = kRank,
                             .rows = kWide,
                             .columns = kLong,
                             .end = kWide});
    return values;
  };
  const auto own = product(FactorProductKernelCpu<float>);
  CHECK(own == product(cpu_generic::FactorProductKernel<float>));
  double exact = 0.0;
  for (int64_t k = 0; k < kRank; ++k) {
    exact += double{left[static_cast<size_t>(k * kWide + 10)]} *
             double{right[static_cast<size_t>(k * kLong + 332)]};
  }
  CHECK(own.back() == Approx(exact).margin(1e-6));

  const auto project = [&](const auto& kernel) {
    std::vector<float> row = RandomValues<float>(kLong, 3);
    kernel(SubtractProjectionArgs{.row = row.data(), .direction = right.data(), .length = kLong});
    return row;
  };
  CHECK(project(SubtractProjectionKernelCpu<float>) ==
        project(cpu_generic::SubtractProjectionKernel<float>));
}

TEST_CASE("matrices whose factors are more than half of them are not worth it") {
  CHECK(internal::PaysAtRank({512, 2048}, 32));
  CHECK(internal::PaysAtRank({16, 16}, 4));
  CHECK_FALSE(internal::PaysAtRank({16, 15}, 4));
  CHECK_FALSE(internal::PaysAtRank({512, 1}, 1));
  CHECK_FALSE(internal::PaysAtRank({0, 0}, 1));  // no matrix
}

}  // namespace
}  // namespace dtrain
