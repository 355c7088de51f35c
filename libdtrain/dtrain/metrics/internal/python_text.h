// python_text.h - the text rules of Python's str that metrics inherit: white space, lower case.
// SPDX-License-Identifier: Apache-2.0
//
// All functions take UTF-8. Bytes that are not UTF-8 count as one character each.
#ifndef DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_
#define DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

// Bytes of the white space character that `text` starts with, 0 if it starts with another one.
// The set is that of str.split() and str.isspace(): 09-0D 1C-20 85 A0 1680 2000-200A 2028 2029 202F
// 205F 3000.
size_t LeadingSpaceBytes(std::string_view text);

// `text` without white space at its end, as str.rstrip().
std::string_view StripRight(std::string_view text);

// Appends the words of `text`, as str.split(). They point into `text`.
void SplitWords(std::string_view text, std::vector<std::string_view>& words);

// Appends the code points of `text` that are not white space.
void AppendVisibleCodePoints(std::string_view text, std::vector<uint32_t>& code_points);

// `text` in lower case, as str.lower(): with U+0130 as two characters and the final sigma.
std::string LowerCase(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_METRICS_INTERNAL_PYTHON_TEXT_H_
