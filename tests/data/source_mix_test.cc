// source_mix_test.cc - shares by weight, rounds that leave out no sample, the same for all.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/source_mix.h"

#include <algorithm>
#include <map>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

using Sources = std::vector<SampleSource>;

// How often each row of [begin, end) is among `rows`.
std::map<uint32_t, int> CountsOf(const std::vector<uint32_t>& rows, uint32_t begin, uint32_t end) {
  std::map<uint32_t, int> counts;
  for (const uint32_t row : rows) {
    if (row >= begin && row < end) ++counts[row];
  }
  return counts;
}

int64_t CountIn(const std::vector<uint32_t>& rows, uint32_t begin, uint32_t end) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](uint32_t row) { return row >= begin && row < end; });
}

TEST_CASE("sources give shares of an epoch by their weights") {
  CHECK(SamplesPerEpoch(Sources{{90, 1.0}, {10, 1.0}}) == std::vector<int64_t>{50, 50});
  CHECK(SamplesPerEpoch(Sources{{90, 3.0}, {10, 1.0}}) == std::vector<int64_t>{75, 25});
  CHECK(SamplesPerEpoch(Sources{{90, 0.3}, {10, 0.1}}) == std::vector<int64_t>{75, 25});
  CHECK(SamplesPerEpoch(Sources{{7, 0.001}}) == std::vector<int64_t>{7});
  // 10 / 3 each; of equal remainders the first sources get more.
  CHECK(SamplesPerEpoch(Sources{{2, 1.0}, {3, 1.0}, {5, 1.0}}) == std::vector<int64_t>{4, 3, 3});
  CHECK(SamplesPerEpoch(Sources{{50, 1.0}, {50, 1e-9}}) == std::vector<int64_t>{100, 0});
  CHECK(SamplesPerEpoch(Sources{}).empty());
}

TEST_CASE("an epoch draws each source's share, and repeats none before all others") {
  const Sources sources = {{90, 1.0}, {10, 1.0}};
  const std::vector<uint32_t> rows = DrawSamples(sources, 0, {.seed = 3});
  REQUIRE(rows.size() == 100);
  // 50 of 90: each once at most. 50 of 10: each five times.
  const auto large = CountsOf(rows, 0, 90);
  const auto small = CountsOf(rows, 90, 100);
  CHECK(large.size() == 50);
  CHECK(small.size() == 10);
  for (const auto& [row, count] : small) CHECK(count == 5);
}

TEST_CASE("epochs go on where the rounds of a source ended") {
  const Sources sources = {{90, 1.0}, {30, 1.0}};
  std::vector<uint32_t> all;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<uint32_t> rows = DrawSamples(sources, epoch, {.seed = 9});
    all.insert(all.end(), rows.begin(), rows.end());
  }
  // 180 of each: two whole rounds of the large source, six of the small one.
  for (const auto& [row, count] : CountsOf(all, 0, 90)) CHECK(count == 2);
  for (const auto& [row, count] : CountsOf(all, 90, 120)) CHECK(count == 6);
  CHECK(CountsOf(all, 0, 120).size() == 120);
}

TEST_CASE("a draw depends on seed and epoch alone") {
  const Sources sources = {{300, 2.0}, {40, 1.0}, {5, 0.5}};
  const std::vector<uint32_t> rows = DrawSamples(sources, 4, {.seed = 1});
  CHECK(rows == DrawSamples(sources, 4, {.seed = 1}));
  CHECK(rows != DrawSamples(sources, 5, {.seed = 1}));
  CHECK(rows != DrawSamples(sources, 4, {.seed = 2}));
  // Sources of one size have orders of their own.
  const std::vector<uint32_t> equal = DrawSamples(Sources{{50, 1.0}, {50, 1.0}}, 0, {.seed = 1});
  bool differ = false;
  for (size_t i = 0; i < 100; i += 2) differ = differ || equal[i] % 50 != equal[i + 1] % 50;
  CHECK(differ);
}

TEST_CASE("without shuffling, sources are in their order and spread over the epoch") {
  const Sources sources = {{6, 3.0}, {2, 1.0}};
  CHECK(DrawSamples(sources, 0, {.shuffle = false}) ==
        std::vector<uint32_t>{0, 1, 6, 2, 3, 4, 7, 5});
  const std::vector<uint32_t> rows =
      DrawSamples(Sources{{800, 3.0}, {200, 1.0}}, 1, {.shuffle = false});
  for (size_t begin = 0; begin < 1000; begin += 100) {
    const std::vector<uint32_t> part(rows.begin() + static_cast<int64_t>(begin),
                                     rows.begin() + static_cast<int64_t>(begin) + 100);
    CHECK(CountIn(part, 800, 1000) == 25);
  }
  // The second epoch of 750 begins with what the first left of 800.
  CHECK(*std::find_if(rows.begin(), rows.end(), [](uint32_t row) { return row < 800; }) == 750);
}

}  // namespace
}  // namespace dtrain
