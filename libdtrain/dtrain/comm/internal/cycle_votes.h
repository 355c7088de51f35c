// cycle_votes.h - the bits by which ranks find out in one reduction what all of them are ready for.
// SPDX-License-Identifier: Apache-2.0
//
// Word 0 says that this rank has no news. One bit per entry of the cache follows: set if this rank
// has submitted that entry. If some rank has joined, a second row holds the complements: after the
// bitwise and over all ranks they show which entries nobody has submitted.
#ifndef DTRAIN_COMM_INTERNAL_CYCLE_VOTES_H_
#define DTRAIN_COMM_INTERNAL_CYCLE_VOTES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::internal {

struct RankVote {
  int cache_size = 0;              // numbers are below it
  std::span<const int> submitted;  // numbers in the cache
  bool has_news = false;
  bool some_joined = false;
  bool has_joined = false;  // this rank: it is ready for everything that another rank has
};
std::vector<uint64_t> EncodeVote(const RankVote& vote);

// The functions below take the bitwise and of all ranks' votes.
bool SomeRankHasNews(std::span<const uint64_t> votes);
// The numbers in the cache that all ranks are ready for, ascending.
std::vector<int> ReadyNumbers(std::span<const uint64_t> votes, int cache_size);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_CYCLE_VOTES_H_
