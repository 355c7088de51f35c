// added_tokens.cc - the search for added tokens and the rules of their neighbours.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/added_tokens.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/byte_level.h"

namespace dtrain::internal {
namespace {

uint32_t CodePointBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0u) == 0x80) --begin;
  size_t size = 0;
  return DecodeUtf8(text.substr(begin), size);
}

bool IsWordCharacter(uint32_t code_point) {
  const CharacterClass kind = ClassOf(code_point);
  return kind == CharacterClass::kLetter || kind == CharacterClass::kNumber || code_point == '_';
}

bool StandsAlone(std::string_view all, size_t begin, size_t end) {
  size_t size = 0;
  return (begin == 0 || !IsWordCharacter(CodePointBefore(all, begin))) &&
         (end == all.size() || !IsWordCharacter(DecodeUtf8(all.substr(end), size)));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  const auto key = [](const AddedToken& token) {
    return std::tuple(static_cast<uint8_t>(token.content.front()),
                      -static_cast<int64_t>(token.content.size()));
  };
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [&](const AddedToken& a, const AddedToken& b) { return key(a) < key(b); });
  for (const AddedToken& token : tokens_)
    ++first_[static_cast<uint8_t>(token.content.front()) + 1u];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& raw,
                         const std::vector<AddedToken>& normalized)
    : all_{AddedTokenMatcher(raw), AddedTokenMatcher(normalized)} {
  const auto plain = [](std::vector<AddedToken> tokens) {
    std::erase_if(tokens, [](const AddedToken& token) { return token.is_special; });
    return AddedTokenMatcher(std::move(tokens));
  };
  plain_ = {plain(raw), plain(normalized)};
}

const AddedToken* AddedTokenMatcher::LongestAt(std::string_view rest) const {
  const auto byte = static_cast<uint8_t>(rest.front());
  for (uint32_t i = first_[byte]; i < first_[byte + 1u]; ++i) {
    if (rest.starts_with(tokens_[i].content)) return &tokens_[i];
  }
  return nullptr;
}

AddedTokenMatcher::Match AddedTokenMatcher::Next(std::string_view all, size_t from,
                                                 size_t done) const {
  for (size_t begin = from; begin < all.size(); ++begin) {
    const AddedToken* const token = LongestAt(all.substr(begin));
    if (token == nullptr) continue;
    Match match{token, begin, begin + token->content.size()};
    if (token->single_word && !StandsAlone(all, match.begin, match.end)) {
      begin = match.end - 1;  // the search goes on behind it
      continue;
    }
    if (token->strips_left) {
      while (match.begin > done) {
        const uint32_t before = CodePointBefore(all, match.begin);
        if (ClassOf(before) != CharacterClass::kSpace) break;
        do --match.begin;
        while ((static_cast<uint8_t>(all[match.begin]) & 0xC0u) == 0x80);
      }
    }
    if (token->strips_right) {
      size_t size = 0;
      while (match.end < all.size() &&
             ClassOf(DecodeUtf8(all.substr(match.end), size)) == CharacterClass::kSpace) {
        match.end += size;
      }
    }
    return match;
  }
  return {};
}

}  // namespace dtrain::internal
