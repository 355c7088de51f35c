// unigram_words.h - the words of a text as a Unigram vocabulary is learned from them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_WORDS_H_
#define DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain::internal {

struct UnigramWords {
  struct Word {
    uint64_t begin;  // in `text`
    uint32_t size;   // in bytes, at least 1
    int64_t count;
  };
  // All words, one after the other. A word begins with a space, which stands for U+2581. A word
  // with characters that are not covered is cut there into words.
  std::string text;
  std::vector<Word> words;                                  // each once, sorted
  std::vector<std::pair<std::string, int64_t>> characters;  // those covered, with their counts
  int64_t long_words = 0;  // occurrences of words of more than kMaxWordBytes, which are left out

  std::string_view TextOf(const Word& word) const {
    return std::string_view(text).substr(word.begin, word.size);
  }
};

// The order depends only on the words, not on that of `table`.
UnigramWords WordsOf(const WordTable& table, double character_coverage);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_WORDS_H_
