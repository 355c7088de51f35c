// sentences.cc - one pass over the bytes, which looks at ASCII and a few other marks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/sentences.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dtrain {
namespace {

using Marks = std::span<const std::string_view>;

// The last two are the no-break space U+00A0 and the ideographic space U+3000.
constexpr std::string_view kSpaces[] = {" ", "\t", "\r", "\v", "\f", "\xC2\xA0", "\xE3\x80\x80"};
// Ends of sentences that must be followed by a space: ASCII marks, U+061F and the danda U+0964.
constexpr std::string_view kEnds[] = {".", "!", "?", "\xD8\x9F", "\xE0\xA5\xA4"};
// Full-width ends of sentences: U+3002, U+FF01, U+FF1F.
constexpr std::string_view kWideEnds[] = {"\xE3\x80\x82", "\xEF\xBC\x81", "\xEF\xBC\x9F"};
// True for the first byte of any of these marks. A table, because find_first_of() calls a function
// for each byte.
constexpr std::array<bool, 256> kBeginsEnd = [] {
  std::array<bool, 256> table{};
  for (const Marks marks : {Marks(kEnds), Marks(kWideEnds)}) {
    for (const std::string_view mark : marks) table[static_cast<uint8_t>(mark[0])] = true;
  }
  return table;
}();
// Closing quotes and brackets: ASCII ones, typographic ' and ", a guillemet, and the full-width
// U+300D, U+300F and U+FF09.
constexpr std::string_view kClosing[] = {"'",           "\"",           ")",
                                         "]",           "\xE2\x80\x99", "\xE2\x80\x9D",
                                         "\xC2\xBB",    "\xE3\x80\x8D", "\xE3\x80\x8F",
                                         "\xEF\xBC\x89"};

// Position of the next byte from `i` on that may begin an end mark, or the line's size.
size_t FindEnd(std::string_view line, size_t i) {
  while (i < line.size() && !kBeginsEnd[static_cast<uint8_t>(line[i])]) ++i;
  return i;
}

// Number of bytes of the mark that `text` begins with, or 0.
size_t SizeOf(Marks marks, std::string_view text) {
  for (const std::string_view mark : marks) {
    if (text.starts_with(mark)) return mark.size();
  }
  return 0;
}

size_t SkipSpaces(std::string_view line, size_t i) {
  while (const size_t space = SizeOf(kSpaces, line.substr(i))) i += space;
  return i;
}

bool DropLastSpace(std::string_view& text) {
  for (const std::string_view space : kSpaces) {
    if (!text.ends_with(space)) continue;
    text.remove_suffix(space.size());
    return true;
  }
  return false;
}

void AddTrimmed(std::string_view text, std::vector<std::string_view>& sentences) {
  text.remove_prefix(SkipSpaces(text, 0));
  while (DropLastSpace(text)) continue;
  if (!text.empty()) sentences.push_back(text);
}

}  // namespace

bool HasOnlySpaces(std::string_view line) { return SkipSpaces(line, 0) == line.size(); }

void SplitSentences(std::string_view line, std::vector<std::string_view>& sentences) {
  size_t begin = 0;
  for (size_t i = FindEnd(line, 0); i < line.size(); i = FindEnd(line, i)) {
    const size_t mark = i;
    bool wide = false;
    while (i < line.size()) {
      const size_t wide_size = SizeOf(kWideEnds, line.substr(i));
      const size_t size = wide_size > 0 ? wide_size : SizeOf(kEnds, line.substr(i));
      if (size == 0) break;
      wide = wide || wide_size > 0;
      i += size;
    }
    if (i == mark) {
      ++i;
      continue;
    }
    while (const size_t closing = SizeOf(kClosing, line.substr(i))) i += closing;
    const size_t next = SkipSpaces(line, i);
    if (next == line.size()) break;
    const bool goes_on = next == i || (line[next] >= 'a' && line[next] <= 'z');
    if (goes_on && !wide) continue;
    AddTrimmed(line.substr(begin, i - begin), sentences);
    begin = i = next;
  }
  AddTrimmed(line.substr(begin), sentences);
}

}  // namespace dtrain
