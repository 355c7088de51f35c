// bpe_text.cc - divides a line into words as SentencePiece's identity rule does it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/bpe_text.h"

#include <cstring>

namespace dtrain::internal {

uint32_t DecodeUtf8(std::string_view text, size_t& size) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const auto is_trail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0u) == 0x80u; };
  const uint32_t lead = byte(0);
  size = 1;
  if (lead < 0x80) return lead;
  if (lead >= 0xC2 && lead < 0xE0 && is_trail(1)) {
    size = 2;
    return (lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  }
  if (lead >= 0xE0 && lead < 0xF0 && is_trail(1) && is_trail(2)) {
    const uint32_t c = (lead & 0xFu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) {
      size = 3;
      return c;
    }
  }
  if (lead >= 0xF0 && lead < 0xF5 && is_trail(1) && is_trail(2) && is_trail(3)) {
    const uint32_t c =
        (lead & 0x7u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    if (c >= 0x10000 && c <= 0x10FFFF) {
      size = 4;
      return c;
    }
  }
  return kInvalidCodePoint;
}

void AppendUtf8(uint32_t c, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0u | c >> 6);
    put(0x80u | (c & 0x3Fu));
  } else if (c < 0x10000) {
    put(0xE0u | c >> 12);
    put(0x80u | (c >> 6 & 0x3Fu));
    put(0x80u | (c & 0x3Fu));
  } else {
    put(0xF0u | c >> 18);
    put(0x80u | (c >> 12 & 0x3Fu));
    put(0x80u | (c >> 6 & 0x3Fu));
    put(0x80u | (c & 0x3Fu));
  }
}

namespace {

// Calls accept(code point) for each character; false as soon as one is invalid or not accepted.
template <typename Accept>
bool AllCodePoints(std::string_view text, const Accept& accept) {
  size_t i = 0;
  while (i < text.size()) {
    // Eight ASCII bytes at a time: most text is mostly that.
    if (i + 8 <= text.size()) {
      uint64_t chunk;
      std::memcpy(&chunk, text.data() + i, 8);
      if ((chunk & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    size_t size;
    const uint32_t c = DecodeUtf8(text.substr(i), size);
    if (c == kInvalidCodePoint || !accept(c)) return false;
    i += size;
  }
  return true;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  return AllCodePoints(text, [](uint32_t) { return true; });
}

bool IsPlainLine(std::string_view line) {
  return AllCodePoints(line, [](uint32_t c) { return c != kMetaspaceCodePoint; });
}

std::string NormalizeLine(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  line.remove_prefix(first);
  std::string out(kMetaspace);
  bool after_space = true;
  while (!line.empty()) {
    size_t size;
    const bool valid = DecodeUtf8(line, size) != kInvalidCodePoint;
    const bool is_space = line[0] == ' ';
    if (is_space) {
      if (!after_space) out += kMetaspace;
    } else {
      out += valid ? line.substr(0, size) : kReplacement;
    }
    after_space = is_space;
    line.remove_prefix(size);
  }
  while (out.ends_with(kMetaspace)) out.resize(out.size() - kMetaspace.size());
  return out;
}

}  // namespace dtrain::internal
