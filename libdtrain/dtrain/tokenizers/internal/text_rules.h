// text_rules.h - the normalizers of a tokenizer.json that Unigram models have, one after the other.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_TEXT_RULES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_TEXT_RULES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/character_map.h"

namespace dtrain::internal {

class TextRules {
 public:
  // Changes nothing.
  TextRules() = default;

  // Reads Precompiled, Replace (of a text, or of " {2,}"), Strip, Nmt, NFC, NFD, NFKC, NFKD, null,
  // and Sequences of these. Returns DataError that names another one. `file` is for its message.
  static StatusOr<TextRules> Parse(const nlohmann::json& normalizer, const std::string& file);

  // Whether a rule may leave out the begin of a text: Strip, Nmt, or Replace by nothing. The rules
  // of a character map do so, too, but to `tokenizers` the text then still begins at its begin.
  bool may_drop_begin() const;

  // Changes `text`, which is valid UTF-8. `buffer` is scratch memory.
  void Apply(std::string& text, std::string& buffer) const;

 private:
  enum class Kind : uint8_t {
    kMap,
    kReplace,
    kSqueeze,
    kStrip,
    kNmt,
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
  };
  struct Rule {
    Kind kind;
    CharacterMap map;     // kMap
    std::string pattern;  // kReplace
    std::string content;  // kReplace, kSqueeze: what two or more spaces become
    bool strips_left = false;
    bool strips_right = false;
  };

  Status Add(const nlohmann::json& normalizer, const std::string& file, int depth);
  Status AddReplace(const nlohmann::json& normalizer, const std::string& file);
  static void ApplyRule(const Rule& rule, std::string_view text, std::string& out);

  std::vector<Rule> rules_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_TEXT_RULES_H_
