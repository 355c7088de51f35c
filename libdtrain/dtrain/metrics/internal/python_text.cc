// python_text.cc - white space by its UTF-8 bytes; case conversion by utf8proc.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/metrics/internal/python_text.h"

#include <utf8proc.h>

#include <array>

namespace dtrain::internal {
namespace {

constexpr uint32_t kCapitalIWithDot = 0x130;
constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kFinalSigma = 0x3C2;
// Lone surrogates represent invalid bytes, as in Python's surrogateescape.
constexpr uint32_t kEscapedByte = 0xDC00;

uint8_t ByteAt(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// Returns the code point at `position` and moves `position` past it.
uint32_t NextCodePoint(std::string_view text, size_t& position) {
  const uint8_t first = ByteAt(text, position);
  if (first < 0x80) {
    ++position;
    return first;
  }
  utf8proc_int32_t code_point = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + position;
  const auto length =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - position), &code_point);
  if (length <= 0) {
    ++position;
    return kEscapedByte + first;
  }
  position += static_cast<size_t>(length);
  return static_cast<uint32_t>(code_point);
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  if (code_point >= kEscapedByte + 0x80 && code_point <= kEscapedByte + 0xFF) {
    out += static_cast<char>(code_point - kEscapedByte);
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

utf8proc_category_t Category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Unicode 14, section 3.13: characters that the final-sigma rule skips.
bool IsCaseIgnorable(uint32_t code_point) {
  switch (code_point) {
    case '\'':
    case '.':
    case ':':
    case 0xB7:
    case 0x2018:
    case 0x2019:
    case 0x2024:
    case 0x2027:
      return true;
    default:
      break;
  }
  switch (Category(code_point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

bool IsCased(uint32_t code_point) {
  switch (Category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return false;
  }
}

// A sigma is final if a cased letter comes before it and none comes after it.
bool IsFinalSigma(const std::vector<uint32_t>& text, size_t position) {
  size_t before = position;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  size_t behind = position + 1;
  while (behind < text.size() && IsCaseIgnorable(text[behind])) ++behind;
  return behind == text.size() || !IsCased(text[behind]);
}

}  // namespace

size_t LeadingSpaceBytes(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = ByteAt(text, 0);
  if (first < 0x80) {
    return (first >= 0x09 && first <= 0x0D) || (first >= 0x1C && first <= 0x20) ? 1 : 0;
  }
  if (first == 0xC2 && text.size() >= 2) {
    const uint8_t second = ByteAt(text, 1);
    return second == 0x85 || second == 0xA0 ? 2 : 0;
  }
  if (first < 0xE1 || first > 0xE3 || text.size() < 3) return 0;
  const uint8_t second = ByteAt(text, 1);
  const uint8_t third = ByteAt(text, 2);
  const bool space = (first == 0xE1 && second == 0x9A && third == 0x80) ||
                     (first == 0xE2 && second == 0x80 &&
                      (third <= 0x8A || third == 0xA8 || third == 0xA9 || third == 0xAF)) ||
                     (first == 0xE2 && second == 0x81 && third == 0x9F) ||
                     (first == 0xE3 && second == 0x80 && third == 0x80);
  return space ? 3 : 0;
}

std::string_view StripRight(std::string_view text) {
  for (;;) {
    size_t length = 1;
    while (length <= 3 && length <= text.size() &&
           LeadingSpaceBytes(text.substr(text.size() - length)) != length) {
      ++length;
    }
    if (length > 3 || length > text.size()) return text;
    text.remove_suffix(length);
  }
}

void SplitWords(std::string_view text, std::vector<std::string_view>& words) {
  size_t start = 0;
  size_t i = 0;
  while (i < text.size()) {
    const size_t space = LeadingSpaceBytes(text.substr(i));
    if (space == 0) {
      ++i;
      continue;
    }
    if (i > start) words.push_back(text.substr(start, i - start));
    i += space;
    start = i;
  }
  if (i > start) words.push_back(text.substr(start, i - start));
}

void AppendVisibleCodePoints(std::string_view text, std::vector<uint32_t>& code_points) {
  size_t i = 0;
  while (i < text.size()) {
    if (const size_t space = LeadingSpaceBytes(text.substr(i)); space > 0) {
      i += space;
    } else {
      code_points.push_back(NextCodePoint(text, i));
    }
  }
}

std::string LowerCase(std::string_view text) {
  std::vector<uint32_t> code_points;
  code_points.reserve(text.size());
  for (size_t i = 0; i < text.size();) code_points.push_back(NextCodePoint(text, i));
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < code_points.size(); ++i) {
    const uint32_t code_point = code_points[i];
    if (code_point < 0x80) {
      const bool capital = code_point >= 'A' && code_point <= 'Z';
      out += static_cast<char>(capital ? code_point + 0x20 : code_point);
    } else if (code_point == kCapitalIWithDot) {
      out += "i\xCC\x87";
    } else if (code_point == kCapitalSigma && IsFinalSigma(code_points, i)) {
      AppendUtf8(kFinalSigma, out);
    } else {
      AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))),
                 out);
    }
  }
  return out;
}

}  // namespace dtrain::internal
