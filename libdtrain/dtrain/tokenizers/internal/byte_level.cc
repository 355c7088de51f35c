// byte_level.cc - classes of characters from generated ranges, and GPT-2's pattern by hand.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/byte_level.h"

#include <algorithm>
#include <array>
#include <vector>

#include "dtrain/base/utf8.h"

namespace dtrain::internal {
namespace {

#include "dtrain/data/internal/byte_level_classes.inc"

constexpr uint32_t kUnicodeSize = 0x110000;
constexpr uint32_t kShifted = 256;  // characters of bytes that do not show

// Two bits a code point would do; a byte is faster to read.
std::vector<CharacterClass> MakeClasses() {
  std::vector<CharacterClass> classes(kUnicodeSize, CharacterClass::kOther);
  for (const auto& range : kClassRanges) {
    std::fill(classes.begin() + range[0], classes.begin() + range[1] + 1,
              static_cast<CharacterClass>(range[2]));
  }
  return classes;
}

const std::vector<CharacterClass>& Classes() {
  static const std::vector<CharacterClass> classes = MakeClasses();
  return classes;
}

// The class of the character at `at`, whose bytes `size` gets.
CharacterClass ClassAt(std::string_view text, size_t at, size_t& size) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) {
    size = 1;
    return Classes()[byte];
  }
  return ClassOf(DecodeUtf8(text.substr(at), size));
}

size_t Contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// The end of the run of characters of one class that begins at `at`. `last` gets the place of the
// run's last character.
size_t EndOfRun(std::string_view text, size_t at, CharacterClass kind, size_t& last) {
  size_t size = 0;
  while (at < text.size() && ClassAt(text, at, size) == kind) {
    last = at;
    at += size;
  }
  return at;
}

bool ShowsItself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

std::array<uint32_t, 256> MakeCharacters() {
  std::array<uint32_t, 256> characters{};
  uint32_t next = kShifted;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    characters[byte] = ShowsItself(byte) ? byte : next++;
  }
  return characters;
}

const std::array<uint32_t, 256>& Characters() {
  static const std::array<uint32_t, 256> characters = MakeCharacters();
  return characters;
}

}  // namespace

CharacterClass ClassOf(uint32_t code_point) {
  return code_point < kUnicodeSize ? Classes()[code_point] : CharacterClass::kOther;
}

size_t NextWord(std::string_view text) {
  if (text.front() == '\'') {
    if (const size_t size = Contraction(text); size > 0) return size;
  }
  size_t size = 0;
  size_t last = 0;
  const CharacterClass kind = ClassAt(text, 0, size);
  if (kind != CharacterClass::kSpace) return EndOfRun(text, 0, kind, last);
  if (text.front() == ' ' && text.size() > 1) {
    const CharacterClass next = ClassAt(text, 1, size);
    if (next != CharacterClass::kSpace) return EndOfRun(text, 1, next, last);
  }
  const size_t end = EndOfRun(text, 0, CharacterClass::kSpace, last);
  // White space before a word leaves its last character to it, unless it has only one.
  return end == text.size() || last == 0 ? end : last;
}

uint32_t CharacterOfByte(uint8_t byte) { return Characters()[byte]; }

std::optional<std::string> BytesOfPiece(std::string_view piece) {
  std::string bytes;
  while (!piece.empty()) {
    size_t size = 0;
    const uint32_t character = DecodeUtf8(piece, size);
    const auto& all = Characters();
    const auto found = std::find(all.begin(), all.end(), character);
    if (found == all.end()) return std::nullopt;
    bytes += static_cast<char>(found - all.begin());
    piece.remove_prefix(size);
  }
  return bytes;
}

}  // namespace dtrain::internal
