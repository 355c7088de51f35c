// bpe_text.h - the division of a line into words, as SentencePiece does it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_BPE_TEXT_H_
#define DTRAIN_TOKENIZERS_INTERNAL_BPE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/base/utf8.h"

namespace dtrain::internal {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581
inline constexpr uint32_t kMetaspaceCodePoint = 0x2581;

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

#endif  // DTRAIN_TOKENIZERS_INTERNAL_BPE_TEXT_H_
