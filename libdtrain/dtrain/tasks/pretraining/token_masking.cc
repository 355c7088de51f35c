// token_masking.cc - draws words until enough tokens are selected, then their replacements.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/token_masking.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/base/check.h"

namespace dtrain {
namespace {

// Tokens that are masked together.
struct Word {
  int32_t begin = 0;
  int32_t size = 0;
};

bool IsSpecial(const DocumentShardInfo& vocabulary, int32_t id) {
  return id == vocabulary.cls_id || id == vocabulary.sep_id;
}

std::vector<Word> FindWords(const DocumentShardInfo& vocabulary, bool whole_words,
                            std::span<const int32_t> ids) {
  std::vector<Word> words;
  bool goes_on = false;  // true if the previous token's word may continue with this token
  for (size_t i = 0; i < ids.size(); ++i) {
    if (IsSpecial(vocabulary, ids[i])) {
      goes_on = false;
    } else if (goes_on && vocabulary.continues_word[static_cast<size_t>(ids[i])] != 0) {
      ++words.back().size;
    } else {
      words.push_back({.begin = static_cast<int32_t>(i), .size = 1});
      goes_on = whole_words;
    }
  }
  return words;
}

// Appends the positions of `count` tokens. `words` must hold at least that many tokens, and are
// reordered.
void ChooseTokens(std::vector<Word>& words, int32_t count, RandomStream& random,
                  std::vector<int32_t>& positions) {
  const Word* left_out = nullptr;  // the first word that was too long
  const auto take = [&](const Word& word, int32_t size) {
    for (int32_t k = 0; k < size; ++k) positions.push_back(word.begin + k);
    count -= size;
  };
  for (size_t i = 0; i < words.size() && count > 0; ++i) {
    std::swap(words[i], words[i + random.NextBelow(static_cast<uint32_t>(words.size() - i))]);
    if (words[i].size <= count) {
      take(words[i], words[i].size);
    } else if (left_out == nullptr) {
      left_out = &words[i];
    }
  }
  if (count > 0) take(*left_out, count);
}

int32_t Replacement(const DocumentShardInfo& vocabulary, int32_t id, RandomStream& random) {
  const float way = random.NextUniform();
  if (way < 0.8f) return vocabulary.mask_id;
  if (way < 0.9f) return id;
  return static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(vocabulary.vocab_size)));
}

}  // namespace

int32_t MaskedCount(int32_t length, int32_t special, const MaskingOptions& options) {
  DT_CHECK(options.share > 0.0 && options.share < 1.0) << options.share;
  DT_CHECK_GT(options.max_predictions, 0);
  // Rounds halves to even, like Python's round().
  const auto wanted = static_cast<int32_t>(std::lrint(length * options.share));
  return std::min({std::max(wanted, 1), options.max_predictions, length - special});
}

void MaskTokens(const DocumentShardInfo& vocabulary, const MaskingOptions& options,
                RandomStream& random, std::span<int32_t> ids, std::vector<int32_t>& positions,
                std::vector<int32_t>& masked_ids) {
  const auto special =
      std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return IsSpecial(vocabulary, id); });
  const int32_t count =
      MaskedCount(static_cast<int32_t>(ids.size()), static_cast<int32_t>(special), options);
  std::vector<Word> words = FindWords(vocabulary, options.whole_words, ids);
  const auto begin = static_cast<int64_t>(positions.size());
  ChooseTokens(words, count, random, positions);
  std::sort(positions.begin() + begin, positions.end());
  for (auto at = positions.begin() + begin; at != positions.end(); ++at) {
    int32_t& id = ids[static_cast<size_t>(*at)];
    masked_ids.push_back(id);
    id = Replacement(vocabulary, id, random);
  }
}

}  // namespace dtrain
