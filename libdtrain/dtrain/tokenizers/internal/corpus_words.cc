// corpus_words.cc - divides lines into words, and counts characters.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/corpus_words.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/bpe_text.h"

namespace dtrain::internal {

void DivideAtSpaces(std::span<const std::string> lines,
                    const std::function<void(std::string_view)>& add) {
  std::string buffer;
  for (const std::string& line : lines) ForEachWord(line, buffer, add);
}

std::vector<uint32_t> CoveredCharacters(const WordTable& words, double coverage) {
  std::unordered_map<uint32_t, uint64_t> counts;
  std::vector<uint64_t> ascii(128, 0);
  uint64_t total = 0;
  const auto count = [&](std::string_view text, uint64_t times) {
    for (size_t i = 0, size = 0; i < text.size(); i += size) {
      const uint32_t c = DecodeUtf8(text.substr(i), size);
      (c < 128 ? ascii[c] : counts[c]) += times;
      total += times;
    }
  };
  for (size_t i = 0; i < words.size(); ++i) {
    count(kMetaspace, words.value(i));
    count(words.word(i), words.value(i));
  }
  for (uint32_t c = 1; c < 128; ++c) {
    if (ascii[c] != 0) counts[c] = ascii[c];
  }
  std::vector<std::pair<uint32_t, uint64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<uint32_t> covered;
  uint64_t sum = 0;
  for (const auto& [c, times] : sorted) {
    const bool is_enough =
        static_cast<double>(sum) >= coverage * static_cast<double>(total) && coverage < 1.0;
    if (!is_enough || c == kMetaspaceCodePoint) covered.push_back(c);
    sum += times;
  }
  return covered;
}

}  // namespace dtrain::internal
