// token_masking_test.cc - how many tokens are masked, which, and what takes their place.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/token_masking.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "testing/catch.h"
#include "testing/document_shards.h"

namespace dtrain {
namespace {

using testing::kClsId;
using testing::kMaskId;
using testing::kSepId;

struct Masked {
  std::vector<int32_t> ids = {}, positions = {}, masked_ids = {};
};

Masked Mask(std::vector<int32_t> ids, const MaskingOptions& options, uint32_t number,
            const DocumentShardInfo& vocabulary = testing::DocumentInfo(1000)) {
  RandomStream random({.seed = 1, .site = number});
  Masked masked{.ids = std::move(ids)};
  MaskTokens(vocabulary, options, random, masked.ids, masked.positions, masked.masked_ids);
  return masked;
}

// [CLS] a [SEP] b [SEP] with a of `first` and b of `second` tokens, all different.
std::vector<int32_t> Pair(int first, int second) {
  std::vector<int32_t> ids(static_cast<size_t>(first + second + 3));
  std::iota(ids.begin(), ids.end(), 20);
  ids[0] = kClsId;
  ids[static_cast<size_t>(first) + 1] = kSepId;
  ids.back() = kSepId;
  return ids;
}

TEST_CASE("the number of masked tokens is a share that Python's rounding gives, within bounds") {
  const MaskingOptions options;
  CHECK(MaskedCount(128, 3, options) == 19);
  CHECK(MaskedCount(10, 3, options) == 2);  // 1.5 to even
  CHECK(MaskedCount(30, 3, options) == 4);  // 4.5 to even
  CHECK(MaskedCount(5, 3, options) == 1);
  CHECK(MaskedCount(3, 2, options) == 1);
  CHECK(MaskedCount(512, 3, options) == 20);
  CHECK(MaskedCount(512, 3, {.max_predictions = 76}) == 76);
  CHECK(MaskedCount(5, 3, {.share = 0.9}) == 2);
  CHECK_THROWS(MaskedCount(5, 3, {.share = 0.0}));
  CHECK_THROWS(MaskedCount(5, 3, {.max_predictions = 0}));
}

TEST_CASE("masked tokens are named with their places, and all others stay") {
  for (uint32_t number = 0; number < 200; ++number) {
    const std::vector<int32_t> ids = Pair(20 + int(number % 9), 30);
    const Masked masked = Mask(ids, {}, number);
    REQUIRE(static_cast<int32_t>(masked.positions.size()) ==
            MaskedCount(static_cast<int32_t>(ids.size()), 3, {}));
    REQUIRE(masked.masked_ids.size() == masked.positions.size());
    CHECK(std::is_sorted(masked.positions.begin(), masked.positions.end()));
    CHECK(std::set(masked.positions.begin(), masked.positions.end()).size() ==
          masked.positions.size());
    std::vector<int32_t> restored = masked.ids;
    for (size_t i = 0; i < masked.positions.size(); ++i) {
      const auto at = static_cast<size_t>(masked.positions[i]);
      CHECK(ids[at] != kClsId);
      CHECK(ids[at] != kSepId);
      restored[at] = masked.masked_ids[i];
    }
    CHECK(restored == ids);
  }
}

TEST_CASE("of masked tokens 80 % are hidden, 10 % stay and 10 % are random, wherever they stand") {
  std::map<int32_t, int> places;
  int hidden = 0, kept = 0, random = 0, all = 0;
  std::set<int32_t> drawn;
  for (uint32_t number = 0; number < 20000; ++number) {
    const Masked masked = Mask(Pair(15, 20), {}, number);
    for (size_t i = 0; i < masked.positions.size(); ++i) {
      const int32_t id = masked.ids[static_cast<size_t>(masked.positions[i])];
      ++places[masked.positions[i]];
      ++all;
      if (id == kMaskId) {
        ++hidden;
      } else if (id == masked.masked_ids[i]) {
        ++kept;
      } else {
        ++random;
        drawn.insert(id);
      }
    }
  }
  CHECK(all == 120000);
  CHECK(hidden == Approx(0.8 * all).epsilon(0.01));
  CHECK(kept == Approx(0.1 * all).epsilon(0.03));
  CHECK(random == Approx(0.1 * all).epsilon(0.03));
  CHECK(drawn.size() > 990);  // of the whole vocabulary of 1000
  CHECK(places.size() == 35);
  for (const auto& [place, count] : places) CHECK(count == Approx(120000.0 / 35).epsilon(0.06));
}

TEST_CASE("the same stream gives the same mask, another one another") {
  const Masked first = Mask(Pair(30, 30), {}, 5);
  CHECK(Mask(Pair(30, 30), {}, 5).ids == first.ids);
  CHECK(Mask(Pair(30, 30), {}, 6).positions != first.positions);
}

TEST_CASE("whole words are masked with all their pieces") {
  // Odd ids go on with the word before them: words of two pieces.
  DocumentShardInfo vocabulary = testing::DocumentInfo(1000);
  for (size_t id = 0; id < vocabulary.continues_word.size(); ++id) {
    vocabulary.continues_word[id] = id >= 20 && id % 2 == 1;
  }
  // Tokens are 21 to 51 and 53 to 72: three have no other half beside them.
  const std::vector<int32_t> ids = Pair(31, 20);
  const std::set<int32_t> alone = {21, 53, 72};
  int whole = 0;
  for (uint32_t number = 0; number < 300; ++number) {
    const Masked masked =
        Mask(ids, {.max_predictions = 8, .whole_words = true}, number, vocabulary);
    REQUIRE(masked.masked_ids.size() == 8);
    const std::set<int32_t> chosen(masked.masked_ids.begin(), masked.masked_ids.end());
    int split = 0;
    for (const int32_t id : chosen) {
      split += alone.count(id) == 0 && chosen.count(id % 2 == 0 ? id + 1 : id - 1) == 0;
    }
    // Half a word is masked only where no token that stands alone is left.
    CHECK(split <= 1);
    if (split == 1) CHECK(std::includes(chosen.begin(), chosen.end(), alone.begin(), alone.end()));
    whole += split == 0;
  }
  CHECK(whole > 270);
  // Where an odd number is left and only words of two pieces are, one is masked in part.
  const Masked odd =
      Mask({kClsId, 20, 21, 22, 23, kSepId}, {.share = 0.5, .whole_words = true}, 1, vocabulary);
  CHECK(odd.positions.size() == 3);
}

}  // namespace
}  // namespace dtrain
