// unigram_words.cc - cuts words at rare characters, and counts what is left.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/unigram_words.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/corpus_words.h"

namespace dtrain::internal {
namespace {

class WordCutter {
 public:
  explicit WordCutter(const std::vector<uint32_t>& covered) {
    for (const uint32_t c : covered) counts_.emplace(c == kMetaspaceCodePoint ? ' ' : c, 0);
  }

  void Add(std::string_view word, int64_t count) {
    spaced_.assign(" ").append(word);
    const std::string_view all = spaced_;
    size_t begin = 0;
    for (size_t at = 0, size = 0; at < all.size(); at += size) {
      const auto found = counts_.find(DecodeUtf8(all.substr(at), size));
      if (found != counts_.end()) {
        found->second += count;
        continue;
      }
      AddPart(all.substr(begin, at - begin), count);
      begin = at + size;
    }
    AddPart(all.substr(begin), count);
  }

  const WordTable& parts() const { return parts_; }
  int64_t CountOf(uint32_t c) const { return counts_.at(c); }

 private:
  void AddPart(std::string_view part, int64_t count) {
    if (!part.empty()) parts_.FindOrInsert(part) += static_cast<uint64_t>(count);
  }

  std::unordered_map<uint32_t, int64_t> counts_;
  WordTable parts_;
  std::string spaced_;
};

}  // namespace

UnigramWords WordsOf(const WordTable& table, double character_coverage) {
  UnigramWords words;
  const std::vector<uint32_t> covered = CoveredCharacters(table, character_coverage);
  WordCutter cutter(covered);
  for (size_t i = 0; i < table.size(); ++i) {
    const auto count = static_cast<int64_t>(table.value(i));
    if (table.word(i).size() > kMaxWordBytes) {
      words.long_words += count;
    } else {
      cutter.Add(table.word(i), count);
    }
  }
  for (const uint32_t c : covered) {
    const uint32_t character = c == kMetaspaceCodePoint ? ' ' : c;
    auto& [text, count] = words.characters.emplace_back();
    AppendUtf8(character, text);
    count = cutter.CountOf(character);
  }
  const WordTable& parts = cutter.parts();
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return parts.word(a) < parts.word(b); });
  for (const size_t i : order) {
    const std::string_view part = parts.word(i);
    words.words.push_back({words.text.size(), static_cast<uint32_t>(part.size()),
                           static_cast<int64_t>(parts.value(i))});
    words.text.append(part);
  }
  return words;
}

}  // namespace dtrain::internal
