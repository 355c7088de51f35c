// typical_pairs.h - chooses sentence pairs that show what a translation model does.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_TYPICAL_PAIRS_H_
#define DTRAIN_DATA_TYPICAL_PAIRS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// True for running text: several words, mostly letters, and none of the characters of markup, code
// and placeholders such as "<", "{" and "%".
bool IsProse(std::string_view text);

// Indices of `count` pairs, ascending: prose on both sides, of about the median length of the
// sources. Other pairs follow only where there is too little prose. The same ones for the same
// text.
std::vector<size_t> TypicalPairs(std::span<const std::string> sources,
                                 std::span<const std::string> targets, size_t count);

}  // namespace dtrain

#endif  // DTRAIN_DATA_TYPICAL_PAIRS_H_
