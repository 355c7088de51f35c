// printable.h - makes text and numbers fit to be shown: nothing invisible, and not too long.
// SPDX-License-Identifier: Apache-2.0
//
// A column name, a label or a tensor name may hold escape sequences that change the terminal, or
// megabytes of text. Messages show such names through these functions:
//   DataError(absl::StrFormat("no column \"%s\"", Printable(name)));
#ifndef DTRAIN_BASE_PRINTABLE_H_
#define DTRAIN_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// The text with control characters, characters that change the writing direction and invalid UTF-8
// written as "\n", "\x1b" or "\u202e". Longer than `max_bytes`, it is cut and ends in "...".
std::string Printable(std::string_view text, size_t max_bytes = 80);

// The same for a whole message: line ends stay, and each line is cut by itself.
std::string PrintableLines(std::string_view text, size_t max_line_bytes = 4000);

// "a, b, c" of at most `max_names` names, then "and 5 more".
std::string PrintableList(const std::vector<std::string>& names, size_t max_names = 20);

// The number with so many decimals, never longer than 12 characters: a large one is written with an
// exponent, and NaN without its sign.
std::string FormatNumber(double value, int decimals);

}  // namespace dtrain

#endif  // DTRAIN_BASE_PRINTABLE_H_
