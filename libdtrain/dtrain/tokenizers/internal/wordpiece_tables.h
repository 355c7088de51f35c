// wordpiece_tables.h - a WordPiece vocabulary compiled for encoding.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TABLES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TABLES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/tokenizers/internal/wordpiece_trie.h"
#include "dtrain/tokenizers/internal/wordpiece_unicode.h"
#include "dtrain/tokenizers/internal/wordpiece_words.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain::internal {

// In the order of WordPieceTables::special_ids.
inline constexpr std::string_view kSpecialTokens[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
enum SpecialToken : size_t { kUnk, kCls, kSep, kPad, kMask, kNumSpecialTokens };

// The class of a byte in the fast path, which splits text without decoding it.
enum class ByteClass : uint8_t {
  kWord,
  kPunctuation,
  kSpace,
  kOther,  // a control character, or part of a non-ASCII character
};

// `resolved` has all defaults filled in, as in a tokenizer.
CharacterRules RulesOf(const WordPieceOptions& resolved);

struct WordPieceTables {
  WordPieceTables(std::vector<std::string> all_pieces, const WordPieceOptions& resolved);

  std::vector<std::string> pieces;
  WordPieceOptions options;  // all defaults are filled in
  std::unordered_map<std::string_view, int32_t> ids;
  std::array<int32_t, kNumSpecialTokens> special_ids{};  // -1 if missing
  CharacterTable characters;
  WordPieceTrie trie;
  std::array<ByteClass, 256> byte_classes{};
  std::array<char, 256> lower_bytes{};         // for word bytes: the bytes they become
  std::array<int32_t, 256> punctuation_ids{};  // for punctuation bytes
  uint64_t hash = 0;

  bool is_hugging_face() const { return options.behavior == WordPieceBehavior::kHuggingFace; }

  ByteClass ClassOf(char byte) const { return byte_classes[static_cast<uint8_t>(byte)]; }

  // Appends the ids of a word from SplitWords().
  void EncodeWord(std::string_view word, size_t num_chars, std::vector<int32_t>& out) const {
    if (num_chars > static_cast<size_t>(options.max_word_chars) || !trie.Match(word, out)) {
      out.push_back(special_ids[kUnk]);
    }
  }

  // The special token at the start of `text`, as an index into kSpecialTokens. kNumSpecialTokens if
  // there is none, if the options do not enable it, or if the vocabulary lacks it.
  size_t SpecialTokenAt(std::string_view text) const;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TABLES_H_
