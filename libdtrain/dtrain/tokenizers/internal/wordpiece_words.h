// wordpiece_words.h - the basic tokenizer: splits text into normalised words, before WordPiece.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_WORDS_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/wordpiece_unicode.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain::internal {

// Words as consecutive UTF-8. Reused from text to text for its memory.
struct WordList {
  struct Word {
    size_t begin;
    size_t end;
    size_t num_chars;  // code points
  };
  struct Combining {
    uint32_t code_point;
    uint8_t combining_class;
  };
  std::string text;
  std::vector<Word> words;
  std::vector<TokenSpan> sources;  // only from SplitWordsWithSources
  // Scratch memory for both functions.
  std::vector<Combining> pending;
  std::vector<TokenSpan> pending_sources;

  std::string_view word(const Word& w) const {
    return std::string_view(text).substr(w.begin, w.end - w.begin);
  }
};

// Replaces `out` with the words of `text`.
void SplitWords(const CharacterTable& table, std::string_view text, WordList& out);
// Also computes, for every code point of out.text, the character of `text` it was made from. These
// positions never decrease: when combining marks are reordered, their sources are not.
void SplitWordsWithSources(const CharacterTable& table, std::string_view text, WordList& out);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_WORDS_H_
