// utf8.h - strict UTF-8 validation.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_UTF8_H_
#define DTRAIN_DATA_UTF8_H_

#include <cstdint>
#include <string_view>

namespace dtrain {

// Bytes of the longest valid prefix of `text`: text.size() when all of it is valid UTF-8 (RFC 3629:
// no overlong forms, no surrogates, nothing above U+10FFFF). NUL bytes are valid here.
int64_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) {
  return ValidUtf8Prefix(text) == static_cast<int64_t>(text.size());
}

}  // namespace dtrain

#endif  // DTRAIN_DATA_UTF8_H_
