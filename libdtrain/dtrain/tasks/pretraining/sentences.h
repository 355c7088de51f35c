// sentences.h - cuts a paragraph into what reads like sentences.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_SENTENCES_H_
#define DTRAIN_TASKS_PRETRAINING_SENTENCES_H_

#include <string_view>
#include <vector>

namespace dtrain {

// Whether there is nothing but spaces in the line: those of ASCII, U+00A0 and U+3000.
bool IsBlank(std::string_view line);

// Appends views of `line`'s sentences, without the spaces around them; none of a blank line. A
// sentence ends with '.', '!', '?', an Arabic question mark or a danda, perhaps closing quotes or
// brackets, and then a space that no small ASCII letter follows; or with a full-width full stop,
// exclamation or question mark, whatever follows: Chinese and Japanese have no spaces. So "e.g.
// this" stays together; "Mr. Bennet" does not: examples to pre-train on need stretches of text of
// like size, not grammar.
void SplitSentences(std::string_view line, std::vector<std::string_view>& sentences);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_SENTENCES_H_
