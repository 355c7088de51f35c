// utf8.cc - validates eight ASCII bytes at a time, other bytes by table 3-7 of the standard.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/utf8.h"

#include <utf8proc.h>

#include <cstring>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"

namespace dtrain {
namespace {

// Length of the valid multi-byte sequence at p, or 0 if there is none.
int SequenceLength(const unsigned char* p, const unsigned char* end) {
  const auto in_range = [&](int i, int low, int high) {
    return p + i < end && p[i] >= low && p[i] <= high;
  };
  const int lead = p[0];
  if (lead >= 0xC2 && lead <= 0xDF) return in_range(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const int low = lead == 0xE0 ? 0xA0 : 0x80;   // lower values are overlong
    const int high = lead == 0xED ? 0x9F : 0xBF;  // higher values are surrogates
    return in_range(1, low, high) && in_range(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const int low = lead == 0xF0 ? 0x90 : 0x80;   // lower values are overlong
    const int high = lead == 0xF4 ? 0x8F : 0xBF;  // higher values are above U+10FFFF
    return in_range(1, low, high) && in_range(2, 0x80, 0xBF) && in_range(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

int64_t ValidUtf8Prefix(std::string_view text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  const unsigned char* p = begin;
  while (p < end) {
    while (end - p >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      p += 8;
    }
    if (p == end) break;
    if (*p < 0x80) {
      ++p;
      continue;
    }
    const int length = SequenceLength(p, end);
    if (length == 0) break;
    p += length;
  }
  return p - begin;
}

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

bool IsInvisible(uint32_t code_point) {
  if (code_point > 0x10FFFF) return false;
  if (code_point < 0x80) return code_point <= ' ' || code_point == 0x7F;
  constexpr uint32_t kBrailleBlank = 0x2800;
  if (code_point == kBrailleBlank) return true;
  const auto* const property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  switch (property->category) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
      return true;
    default:
      return property->ignorable != 0;
  }
}

bool IsBlank(std::string_view text) {
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(p, left, &code_point);
    if (bytes <= 0 || !IsInvisible(static_cast<uint32_t>(code_point))) return false;
    p += bytes;
    left -= bytes;
  }
  return true;
}

StatusOr<InvalidText> ParseInvalidText(std::string_view name, std::string_view text) {
  if (text == "fail") return InvalidText::kFail;
  if (text == "replace") return InvalidText::kReplace;
  if (text == "skip") return InvalidText::kSkip;
  return UsageError(absl::StrFormat("%s is one of replace, skip, fail, not \"%s\"", ToAbsl(name),
                                    Printable(text)));
}

std::string MendInvalidUtf8(std::string_view text, InvalidText invalid) {
  return invalid == InvalidText::kSkip ? std::string() : ReplaceInvalidUtf8(text);
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string replaced;
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, static_cast<size_t>(ValidUtf8Prefix(text)));
    for (const char c : valid) {
      if (c == '\0') {
        replaced += kReplacement;
      } else {
        replaced += c;
      }
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    replaced += kReplacement;
    text.remove_prefix(1);
  }
  return replaced;
}

}  // namespace dtrain
