// script.h - the approximate script of a character, which decides what a piece may combine.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_SCRIPT_H_
#define DTRAIN_TOKENIZERS_INTERNAL_SCRIPT_H_

#include <cstdint>

namespace dtrain::internal {

inline constexpr uint16_t kAnyScript = 0;     // marks, which belong to the letter before them
inline constexpr uint16_t kCommonScript = 1;  // digits, punctuation and symbols
// Letters return a larger number, the same for all letters of a script. Han and kana count as one
// script.
uint16_t ScriptOf(uint32_t code_point);
bool IsDigit(uint32_t code_point);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_SCRIPT_H_
