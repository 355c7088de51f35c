// bpe_text.h - UTF-8 and the division of a line into words, as SentencePiece does it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_BPE_TEXT_H_
#define DTRAIN_DATA_INTERNAL_BPE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::internal {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581
inline constexpr uint32_t kMetaspaceCodePoint = 0x2581;
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// The code point at the front of `text` (not empty) and its bytes; kInvalidCodePoint and 1 where
// the bytes are no UTF-8 (overlong forms, surrogates and values above U+10FFFF included).
uint32_t DecodeUtf8(std::string_view text, size_t& size);
void AppendUtf8(uint32_t code_point, std::string& out);
bool IsValidUtf8(std::string_view text);

// True where words are simply what stands between spaces: UTF-8 without U+2581.
bool IsPlainLine(std::string_view line);

// Spaces collapsed and escaped, a U+2581 in front, invalid bytes replaced. Empty for a blank line.
std::string NormalizeLine(std::string_view line);

// Calls body(word) with each word of the line, without the U+2581 it begins with; a word is empty
// where two of those follow each other. `buffer` is scratch, and words may point into it.
template <typename Body>
void ForEachWord(std::string_view line, std::string& buffer, const Body& body) {
  if (IsPlainLine(line)) {
    size_t begin = 0;
    while (begin < line.size()) {
      size_t end = begin;
      while (end < line.size() && line[end] != ' ') ++end;
      if (end > begin) body(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return;
  }
  buffer = NormalizeLine(line);
  std::string_view rest = buffer;
  while (!rest.empty()) {
    rest.remove_prefix(kMetaspace.size());
    const size_t end = rest.find(kMetaspace);
    body(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
  }
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_BPE_TEXT_H_
