// wordpiece_words.h - the basic tokenizer: text to normalised words, before WordPiece.
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

// Words one after the other in UTF-8; kept from text to text for its memory.
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
  std::vector<TokenSpan> sources;  // of SplitWordsWithSources
  // Scratch of both.
  std::vector<Combining> pending;
  std::vector<TokenSpan> pending_sources;

  std::string_view word(const Word& w) const {
    return std::string_view(text).substr(w.begin, w.end - w.begin);
  }
};

// Replaces `out` by the words of `text`.
void SplitWords(const CharacterTable& table, std::string_view text, WordList& out);
// And, for every code point of out.text, the character of `text` that it was made of. These go
// forward only: where combining marks change places, their sources do not.
void SplitWordsWithSources(const CharacterTable& table, std::string_view text, WordList& out);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_WORDS_H_
