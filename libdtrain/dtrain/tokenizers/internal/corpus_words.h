// corpus_words.h - the words and characters of a text that a vocabulary is learned from.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_CORPUS_WORDS_H_
#define DTRAIN_TOKENIZERS_INTERNAL_CORPUS_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain::internal {

// Each merge within a word costs its length in time. A longer text is not a word.
inline constexpr size_t kMaxWordBytes = 4096;

// Calls add(word) for each word of the lines, as SentencePiece divides them (ForEachWord()).
void DivideAtSpaces(std::span<const std::string> lines,
                    const std::function<void(std::string_view)>& add);

// The most frequent characters that make up `coverage` of the text; equally frequent ones in the
// order of code points. U+2581, which begins every word, is always included. NUL never is, because
// SentencePiece takes it for the end of a piece.
std::vector<uint32_t> CoveredCharacters(const WordTable& words, double coverage);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_CORPUS_WORDS_H_
