// python_text.h - Python's rules for white space and lower case, which the metrics rely on.
// SPDX-License-Identifier: Apache-2.0
//
// All functions take UTF-8. Each byte that is not valid UTF-8 counts as one character.
#ifndef DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_
#define DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

// Number of bytes of the white-space character at the start of `text`, or 0 if it starts with
// another character. White space is the set of str.split() and str.isspace(): 09-0D 1C-20 85 A0
// 1680 2000-200A 2028 2029 202F 205F 3000.
size_t LeadingSpaceBytes(std::string_view text);

// `text` without trailing white space, as str.rstrip().
std::string_view StripRight(std::string_view text);

// Appends the words of `text`, as str.split(). They are views into `text`.
void SplitWords(std::string_view text, std::vector<std::string_view>& words);

// Appends the code points of `text` that are not white space.
void AppendVisibleCodePoints(std::string_view text, std::vector<uint32_t>& code_points);

// `text` in lower case, as str.lower(): U+0130 becomes two characters, and a sigma at the end of a
// word becomes the final sigma.
std::string LowerCase(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_
