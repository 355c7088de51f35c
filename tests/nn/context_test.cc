// context_test.cc - dropout of ranks, seeds and steps.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/context.h"

#include <catch2/catch.hpp>
#include <set>

namespace dtrain {
namespace {

uint64_t SeedOf(uint64_t seed, int rank) {
  return Context({}, {.seed = seed, .rank = rank}).MakeDropout(0.1f, /*site=*/3).key.seed;
}

TEST_CASE("ranks draw other numbers, and none those of another seed") {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (int rank = 0; rank < 50; ++rank) seeds.insert(SeedOf(seed, rank));
  }
  CHECK(seeds.size() == 20 * 50);
  CHECK(SeedOf(7, 0) == 7);
}

TEST_CASE("dropout is off while not training, and draws anew in each step") {
  Context ctx;
  CHECK(ctx.MakeDropout(0.1f, 3).probability == 0.0f);
  ctx.set_training(true);
  ctx.set_step(5);
  const Dropout dropout = ctx.MakeDropout(0.1f, 3);
  CHECK(dropout.probability == 0.1f);
  CHECK(dropout.key.step == 5);
  CHECK(dropout.key.site == 3);
}

}  // namespace
}  // namespace dtrain
