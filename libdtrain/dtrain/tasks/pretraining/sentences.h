// sentences.h - splits a paragraph into approximate sentences.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_SENTENCES_H_
#define DTRAIN_TASKS_PRETRAINING_SENTENCES_H_

#include <string_view>
#include <vector>

namespace dtrain {

// True if the line has only spaces: those of ASCII, U+00A0 and U+3000. Such a line ends a document.
bool HasOnlySpaces(std::string_view line);

// Appends views of the line's sentences, without surrounding spaces; nothing for a blank line. A
// sentence ends with '.', '!', '?', an Arabic question mark or a danda. After optional closing
// quotes or brackets there must be a space, and no small ASCII letter after it. A full-width full
// stop, exclamation or question mark always ends a sentence, because Chinese and Japanese have no
// spaces. So "e.g. this" is not split, but "Mr. Bennet" is. This suffices for pre-training, which
// needs pieces of text of similar size rather than correct grammar.
void SplitSentences(std::string_view line, std::vector<std::string_view>& sentences);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_SENTENCES_H_
