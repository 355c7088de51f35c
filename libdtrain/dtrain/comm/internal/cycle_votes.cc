// cycle_votes.cc - packs votes into words and reads them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/cycle_votes.h"

#include <bit>
#include <cstddef>

namespace dtrain::internal {
namespace {

constexpr uint64_t kNoNews = 1;

size_t WordsFor(int cache_size) { return static_cast<size_t>(cache_size + 63) / 64; }

}  // namespace

std::vector<uint64_t> EncodeVote(const RankVote& vote) {
  std::vector<uint64_t> have(WordsFor(vote.cache_size));
  for (const int n : vote.submitted) {
    const auto number = static_cast<size_t>(n);
    have[number / 64] |= uint64_t{1} << (number % 64);
  }
  std::vector<uint64_t> words{vote.has_news ? 0 : kNoNews};
  for (const uint64_t word : have) words.push_back(vote.has_joined ? ~uint64_t{0} : word);
  if (!vote.some_joined) return words;
  for (const uint64_t word : have) words.push_back(~word);
  return words;
}

bool SomeRankHasNews(std::span<const uint64_t> votes) { return (votes[0] & kNoNews) == 0; }

std::vector<int> ReadyNumbers(std::span<const uint64_t> votes, int cache_size) {
  std::vector<int> numbers;
  const size_t words = WordsFor(cache_size);
  const bool some_joined = votes.size() > 1 + words;
  for (size_t w = 0; w < words; ++w) {
    uint64_t word = votes[1 + w];
    if (some_joined) word &= ~votes[1 + words + w];
    for (; word != 0; word &= word - 1) {
      numbers.push_back(static_cast<int>(w * 64) + std::countr_zero(word));
    }
  }
  return numbers;
}

}  // namespace dtrain::internal
