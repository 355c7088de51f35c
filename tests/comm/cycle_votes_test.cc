// cycle_votes_test.cc - what ranks learn from the bitwise and of their votes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/cycle_votes.h"

#include <cstdint>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

constexpr int kCacheSize = 130;  // three words

std::vector<uint64_t> Vote(const std::vector<int>& submitted, bool some_joined = false,
                           bool has_joined = false, bool has_news = false) {
  return EncodeVote({.cache_size = kCacheSize,
                     .submitted = submitted,
                     .has_news = has_news,
                     .some_joined = some_joined,
                     .has_joined = has_joined});
}

std::vector<uint64_t> And(const std::vector<std::vector<uint64_t>>& votes) {
  std::vector<uint64_t> all = votes[0];
  for (const auto& vote : votes) {
    REQUIRE(vote.size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] &= vote[i];
  }
  return all;
}

TEST_CASE("a tensor is ready when all ranks have submitted it, in whatever word its bit lies") {
  const auto votes = And({Vote({129, 0, 64, 5}), Vote({0, 63, 64, 129})});
  CHECK(ReadyNumbers(votes, kCacheSize) == std::vector<int>{0, 64, 129});
}

TEST_CASE("news of one rank reach all, and silence of all is seen as such") {
  CHECK_FALSE(SomeRankHasNews(And({Vote({}), Vote({1})})));
  CHECK(SomeRankHasNews(And({Vote({}), Vote({1}, false, false, /*has_news=*/true)})));
}

TEST_CASE("a joined rank is ready for what another rank has, not for what nobody has") {
  const auto joined = Vote({}, /*some_joined=*/true, /*has_joined=*/true);
  const auto votes = And({joined, Vote({7, 70}, true), Vote({7, 71}, true)});
  CHECK(ReadyNumbers(votes, kCacheSize) == std::vector<int>{7});
  CHECK(ReadyNumbers(And({joined, joined}), kCacheSize).empty());
}

TEST_CASE("an empty cache needs the word of news alone") {
  CHECK(EncodeVote({}).size() == 1);
  CHECK(ReadyNumbers(EncodeVote({}), 0).empty());
}

}  // namespace
}  // namespace dtrain::internal
