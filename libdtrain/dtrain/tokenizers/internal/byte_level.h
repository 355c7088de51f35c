// byte_level.h - how GPT-2, RoBERTa and ModernBERT split texts and write bytes as characters.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_BYTE_LEVEL_H_
#define DTRAIN_TOKENIZERS_INTERNAL_BYTE_LEVEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::internal {

enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// The class of a code point in Unicode; of values beyond it kOther.
CharacterClass ClassOf(uint32_t code_point);

// Returns how many bytes at the front of `text` (valid UTF-8, not empty) are the next word by
// GPT-2's pattern:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// (Radford et al. 2019, encoder.py). A word keeps the space in front of it. Time is linear in the
// word's length, and in that of the white space that follows.
size_t NextWord(std::string_view text);

// Vocabularies write each byte as a character that shows: 33 to 126, 161 to 172 and 174 to 255 as
// themselves, the other 68 as U+0100 on, in their order.
uint32_t CharacterOfByte(uint8_t byte);

// The bytes that a piece of such a vocabulary stands for; nothing if it has other characters.
std::optional<std::string> BytesOfPiece(std::string_view piece);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_BYTE_LEVEL_H_
