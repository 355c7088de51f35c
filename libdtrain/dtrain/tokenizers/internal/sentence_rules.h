// sentence_rules.h - how SentencePiece normalises a sentence before it cuts it into pieces.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_SENTENCE_RULES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_SENTENCE_RULES_H_

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "dtrain/tokenizers/internal/character_map.h"
#include "dtrain/tokenizers/internal/piece_trie.h"

namespace dtrain::internal {

// The fields of the same names in SentencePiece's NormalizerSpec and TrainerSpec.
struct SentenceOptions {
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
};

class SentenceRules {
 public:
  SentenceRules() : SentenceRules({}, CharacterMap(), {}) {}
  // No rule changes `symbols`, the pieces that the user defined.
  SentenceRules(const SentenceOptions& options, CharacterMap map,
                std::span<const std::string> symbols);

  // Overwrites `out` with the sentence. A space stands for U+2581, too, if spaces are escaped.
  // Invalid bytes become U+FFFD.
  void Apply(std::string_view sentence, std::string& out) const;

  const SentenceOptions& options() const { return options_; }

 private:
  // The replacement of the text at the front of `rest`; `size` gets how much of it is read.
  std::string_view Next(std::string_view rest, size_t& size) const;
  void Append(std::string_view part, bool& is_after_space, std::string& out) const;

  SentenceOptions options_;
  CharacterMap map_;
  PieceTrie symbols_;
  // Characters of ASCII that are copied if ASCII follows: no rule and no symbol begins with them.
  std::array<bool, 256> is_copied_{};
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_SENTENCE_RULES_H_
