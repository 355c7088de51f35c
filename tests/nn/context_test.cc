// context_test.cc - dropout of ranks, seeds and steps.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/context.h"

#include <set>
#include <utility>
#include <vector>

#include "dtrain/ops/dropout.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

uint64_t SeedOf(uint64_t seed, int rank) {
  return Context({}, {.seed = seed, .rank = rank}).MakeDropout(0.1f, /*site=*/3).key.seed;
}

TEST_CASE("ranks whose rows have no numbers draw others, and none those of another seed") {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (int rank = 0; rank < 50; ++rank) seeds.insert(SeedOf(seed, rank));
  }
  CHECK(seeds.size() == 20 * 50);
  CHECK(SeedOf(7, 0) == 7);
}

TEST_CASE("dropout is off while not training, and draws anew in each micro-batch of each update") {
  Context ctx;
  CHECK(ctx.MakeDropout(0.1f, 3).probability == 0.0f);
  ctx.set_training(true);
  std::set<uint32_t> steps;
  for (const int64_t update : {5, 6}) {
    for (const int64_t part : {int64_t{0}, int64_t{1}, Context::kMostParts - 1}) {
      ctx.set_step(update, part);
      const Dropout dropout = ctx.MakeDropout(0.1f, 3);
      CHECK(dropout.probability == 0.1f);
      CHECK(dropout.key.site == 3);
      steps.insert(dropout.key.step);
    }
  }
  CHECK(steps.size() == 6);
}

TEST_CASE(
    "dropout of rows with numbers is that of the update, on any rank and in any micro-batch") {
  const std::vector<int32_t> numbers = {7, 8};
  std::set<std::pair<uint64_t, uint32_t>> keys;
  for (const int rank : {0, 3}) {
    Context ctx({}, {.seed = 9, .rank = rank});
    const Tensor rows = ctx.Upload(numbers);
    for (const int64_t part : {0, 1}) {
      ctx.set_step(5, part);
      const Dropout dropout = ctx.MakeDropout(0.1f, 3, rows);
      keys.insert({dropout.key.seed, dropout.key.step});
      CHECK(dropout.row_numbers.raw() == rows.raw());
    }
  }
  CHECK(keys == std::set<std::pair<uint64_t, uint32_t>>{{9, 5}});
}

}  // namespace
}  // namespace dtrain
