// character_map.h - replaces characters by the rules that SentencePiece compiles into its models.
// SPDX-License-Identifier: Apache-2.0
//
// The rules (precompiled_charsmap) are three parts: the size of a trie in bytes, the trie, and the
// replacements, each ended by a NUL. The trie is a double array as darts-clone writes it: units of
// 32 bits, little-endian. The child of a unit for a byte is at its offset XOR the byte; a unit
// whose key is a rule has a child for byte 0, which holds the place of the replacement.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_CHARACTER_MAP_H_
#define DTRAIN_TOKENIZERS_INTERNAL_CHARACTER_MAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

class CharacterMap {
 public:
  struct Match {
    size_t size = 0;  // in bytes; 0 for none
    std::string_view replacement;
  };

  // Replaces nothing.
  CharacterMap();

  // Returns DataError where the rules are cut or damaged. `where` is for its message.
  static StatusOr<CharacterMap> Parse(std::string_view rules, const std::string& where);

  bool is_empty() const { return units_.empty(); }

  // The longest rule that `text` begins with.
  Match Longest(std::string_view text) const;

  // True for a character of ASCII that stays as it is if a character of ASCII, or nothing, follows.
  bool IsPlain(char c) const { return is_plain_[static_cast<uint8_t>(c)]; }
  // How many bytes at the front of `text` are plain, each with ASCII or nothing behind it.
  size_t PlainPrefix(std::string_view text) const;

  // Appends the text as `tokenizers` replaces it. A grapheme cluster of less than six bytes becomes
  // what the *shortest* rule says that it begins with, and loses the rest; otherwise each of its
  // characters is replaced alone. `text` must be valid UTF-8.
  void AppendByGraphemes(std::string_view text, std::string& out) const;

 private:
  // Calls found(size, place) for each rule that `text` begins with, the shortest first, until it
  // returns false.
  template <typename Found>
  void Walk(std::string_view text, const Found& found) const;
  std::optional<std::string_view> Shortest(std::string_view text) const;
  std::string_view At(uint32_t place) const;
  bool IsWhole() const;
  bool HasOnlyLongRules(uint32_t byte) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 256> is_plain_{};
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_CHARACTER_MAP_H_
