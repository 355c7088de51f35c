// tokens.h - what a language model reads and writes: the bytes of a text, and a mark at its ends.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_TOKENS_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_TOKENS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// Ids 0 to 255 are bytes. This one stands before each text and behind it.
inline constexpr int32_t kEndOfText = 256;
inline constexpr int64_t kTokenVocabulary = 257;

// A text's beginning as a model reads it: the mark, then the bytes.
std::vector<int32_t> PromptOf(std::string_view text);
// The text of ids, without marks.
std::string TextOf(std::span<const int32_t> ids);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_TOKENS_H_
