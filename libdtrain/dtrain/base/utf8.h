// utf8.h - strict UTF-8: validation, decoding, encoding, repair, and which characters are visible.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_UTF8_H_
#define DTRAIN_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

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

// True for white space, control characters, format characters such as the zero-width space, and
// fillers: characters that leave no ink. False for values that are no Unicode character.
bool IsInvisible(uint32_t code_point);

// True for a text without a visible character: empty, or only tabs, no-break spaces and the like.
// Every tool treats such a line as an empty one. Invalid bytes count as visible.
bool IsBlank(std::string_view text);

// The ways to treat a line or field that is not UTF-8 or holds NUL bytes.
enum class InvalidText {
  kFail,     // an error that names the line
  kReplace,  // each bad byte becomes U+FFFD, and the line is counted
  kSkip      // the line counts as empty
};
// Reads "fail", "replace" or "skip". `name` is the flag's or key's, for the error about other
// words.
StatusOr<InvalidText> ParseInvalidText(std::string_view name, std::string_view text);

// Returns the text with each invalid byte and each NUL byte replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);
// Returns the text with invalid bytes replaced (kReplace), or an empty text (kSkip). `invalid` must
// not be kFail.
std::string MendInvalidUtf8(std::string_view text, InvalidText invalid);

}  // namespace dtrain

#endif  // DTRAIN_BASE_UTF8_H_
