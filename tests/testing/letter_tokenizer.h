// letter_tokenizer.h - a tokenizer whose pieces are letters, so that tests can count tokens.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_LETTER_TOKENIZER_H_
#define DTRAIN_TESTS_TESTING_LETTER_TOKENIZER_H_

#include <string>
#include <vector>

#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain::testing {

// [UNK] is 0, [CLS] 1, [SEP] 2, "a" 3 to "z" 28, "##a" 29 to "##z" 54.
inline WordPieceTokenizer LetterTokenizer() {
  std::vector<std::string> pieces = {"[UNK]", "[CLS]", "[SEP]"};
  for (char c = 'a'; c <= 'z'; ++c) pieces.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) pieces.push_back(std::string("##") + c);
  return WordPieceTokenizer::FromVocabulary(pieces).value();
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_LETTER_TOKENIZER_H_
