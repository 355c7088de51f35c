// utf8.h - strict UTF-8: validation, decoding and encoding.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_UTF8_H_
#define DTRAIN_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

// Number of bytes of the longest valid prefix of `text`: text.size() if all of it is valid UTF-8
// (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). NUL bytes count as valid.
int64_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) {
  return ValidUtf8Prefix(text) == static_cast<int64_t>(text.size());
}

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// Returns the code point at the front of `text`, which is not empty, and sets `size` to its bytes.
// Invalid bytes give kInvalidCodePoint and size 1.
uint32_t DecodeUtf8(std::string_view text, size_t& size);
// Appends the UTF-8 of a code point up to U+10FFFF.
void AppendUtf8(uint32_t code_point, std::string& out);

}  // namespace dtrain

#endif  // DTRAIN_BASE_UTF8_H_
