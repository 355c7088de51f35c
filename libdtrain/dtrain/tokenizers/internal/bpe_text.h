// bpe_text.h - splits a line into words like SentencePiece.
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

// True for valid UTF-8 without U+2581: words are then simply separated by spaces.
bool IsPlainLine(std::string_view line);

// True if the line has no visible character but U+2581, which stands for a space.
bool IsBlankLine(std::string_view line);

// Collapses and escapes spaces, puts a U+2581 in front, and replaces invalid bytes. Empty for a
// blank line.
std::string NormalizeLine(std::string_view line);

// Calls body(word) for each word of the line, without its leading U+2581. A word between two
// consecutive U+2581 is empty. A blank line has no words. `buffer` is scratch memory, and words may
// point into it.
template <typename Body>
void ForEachWord(std::string_view line, std::string& buffer, const Body& body) {
  if (IsBlankLine(line)) return;
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
