// sentences.cc - one pass over the bytes; what is not ASCII is passed over but for closing quotes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/sentences.h"

#include <cstddef>

namespace dtrain {
namespace {

constexpr std::string_view kSpaces = " \t\r\v\f";

bool IsEnd(char c) { return c == '.' || c == '!' || c == '?'; }

// Bytes of the closing quote or bracket that `text` begins with, or 0.
size_t ClosingSize(std::string_view text) {
  // The last four are ' and " as typesetters close them, and a guillemet.
  for (const std::string_view mark :
       {"'", "\"", ")", "]", "\xE2\x80\x99", "\xE2\x80\x9D", "\xC2\xBB"}) {
    if (text.starts_with(mark)) return mark.size();
  }
  return 0;
}

void AddTrimmed(std::string_view text, std::vector<std::string_view>& sentences) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return;
  sentences.push_back(text.substr(first, text.find_last_not_of(kSpaces) + 1 - first));
}

}  // namespace

void SplitSentences(std::string_view line, std::vector<std::string_view>& sentences) {
  size_t begin = 0;
  for (size_t i = 0; i < line.size();) {
    if (!IsEnd(line[i++])) continue;
    while (i < line.size() && IsEnd(line[i])) ++i;
    while (const size_t closing = ClosingSize(line.substr(i))) i += closing;
    const size_t next = line.find_first_not_of(kSpaces, i);
    if (next == i || next == std::string_view::npos) continue;
    if (line[next] >= 'a' && line[next] <= 'z') continue;
    AddTrimmed(line.substr(begin, i - begin), sentences);
    begin = i = next;
  }
  AddTrimmed(line.substr(begin), sentences);
}

}  // namespace dtrain
