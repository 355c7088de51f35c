// character_map.cc - checks and walks the double array of SentencePiece's rules.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/character_map.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/graphemes.h"

namespace dtrain::internal {
namespace {

constexpr uint32_t kIsValue = 1u << 31;
constexpr uint32_t kHasLeaf = 1u << 8;
// Clusters of so many bytes are not looked up as a whole.
constexpr size_t kLongCluster = 6;

uint32_t LabelOf(uint32_t unit) { return unit & (kIsValue | 0xFFu); }
uint32_t OffsetOf(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

uint32_t LittleEndian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

CharacterMap::CharacterMap() { std::fill(is_plain_.begin(), is_plain_.begin() + 0x80, true); }

std::string_view CharacterMap::At(uint32_t place) const {
  return replacements_.c_str() + place;  // up to its NUL
}

template <typename Found>
void CharacterMap::Walk(std::string_view text, const Found& found) const {
  if (units_.empty()) return;
  uint32_t at = OffsetOf(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= units_.size() || LabelOf(units_[at]) != byte) return;
    const uint32_t unit = units_[at];
    at ^= OffsetOf(unit);
    if ((unit & kHasLeaf) != 0 && !found(i + 1, units_[at] & ~kIsValue)) return;
  }
}

// Every unit that has a value has it inside the trie, and the value lies inside the replacements.
bool CharacterMap::IsWhole() const {
  for (uint32_t i = 0; i < units_.size(); ++i) {
    if ((units_[i] & kIsValue) != 0 || (units_[i] & kHasLeaf) == 0) continue;
    const uint32_t leaf = i ^ OffsetOf(units_[i]);
    if (leaf >= units_.size() || (units_[leaf] & ~kIsValue) >= replacements_.size()) return false;
  }
  return true;
}

// Whether no rule is the character of ASCII, or goes on with one.
bool CharacterMap::HasOnlyLongRules(uint32_t byte) const {
  uint32_t at = OffsetOf(units_[0]) ^ byte;
  if (at >= units_.size() || LabelOf(units_[at]) != byte) return true;
  if ((units_[at] & kHasLeaf) != 0) return false;
  at ^= OffsetOf(units_[at]);
  for (uint32_t next = 1; next < 0x80; ++next) {
    if ((at ^ next) < units_.size() && LabelOf(units_[at ^ next]) == next) return false;
  }
  return true;
}

StatusOr<CharacterMap> CharacterMap::Parse(std::string_view rules, const std::string& where) {
  CharacterMap map;
  if (rules.empty()) return map;
  const auto damaged = [&](const char* what) {
    return DataError(absl::StrFormat(
        "%s: precompiled_charsmap is damaged: %s (it has %d bytes); copy the file again", where,
        what, rules.size()));
  };
  if (rules.size() < 4) return damaged("it is too short");
  const size_t trie_bytes = LittleEndian(rules, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0) return damaged("its trie has no whole units");
  if (trie_bytes >= rules.size() - 4) return damaged("its trie is cut");
  for (size_t i = 0; i < trie_bytes; i += 4) map.units_.push_back(LittleEndian(rules, 4 + i));
  map.replacements_ = rules.substr(4 + trie_bytes);
  if (map.replacements_.back() != '\0' || !map.IsWhole()) {
    return damaged("its replacements are cut");
  }
  if (!IsValidUtf8(map.replacements_)) return damaged("its replacements are no UTF-8");
  for (uint32_t byte = 1; byte < 0x80; ++byte) map.is_plain_[byte] = map.HasOnlyLongRules(byte);
  return map;
}

CharacterMap::Match CharacterMap::Longest(std::string_view text) const {
  Match match;
  uint32_t last = 0;
  Walk(text, [&](size_t size, uint32_t place) {
    match.size = size;
    last = place;
    return true;
  });
  if (match.size > 0) match.replacement = At(last);
  return match;
}

std::optional<std::string_view> CharacterMap::Shortest(std::string_view text) const {
  std::optional<std::string_view> replacement;
  Walk(text, [&](size_t, uint32_t place) {
    replacement = At(place);
    return false;
  });
  return replacement;
}

size_t CharacterMap::PlainPrefix(std::string_view text) const {
  size_t end = 0;
  while (end < text.size() && IsPlain(text[end])) ++end;
  // What is behind the last one may change it.
  if (end > 0 && end < text.size() && static_cast<uint8_t>(text[end]) >= 0x80) --end;
  return end;
}

void CharacterMap::AppendByGraphemes(std::string_view text, std::string& out) const {
  while (!text.empty()) {
    if (const size_t plain = PlainPrefix(text); plain > 0) {
      out.append(text.substr(0, plain));
      text.remove_prefix(plain);
      continue;
    }
    const size_t cluster = NextGrapheme(text);
    std::string_view rest = text.substr(0, cluster);
    text.remove_prefix(cluster);
    if (cluster < kLongCluster) {
      if (const auto replacement = Shortest(rest)) {
        out.append(*replacement);
        continue;
      }
    }
    while (!rest.empty()) {
      size_t size = 0;
      DecodeUtf8(rest, size);
      const std::string_view character = rest.substr(0, size);
      out.append(Shortest(character).value_or(character));
      rest.remove_prefix(size);
    }
  }
}

}  // namespace dtrain::internal
