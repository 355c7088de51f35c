// toy_tags.h - sentences with names that a small model learns to tag.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TASKS_TOKEN_CLASSIFICATION_TOY_TAGS_H_
#define DTRAIN_TESTS_TASKS_TOKEN_CLASSIFICATION_TOY_TAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain::testing {

inline std::vector<std::string> ToyTagPieces() {
  return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in",  "from", "met",
          "old",   "the",   "an",    "##na",  "bo",     "##b", "rome", "port"};
}

inline WordPieceTokenizer ToyTagTokenizer() {
  return WordPieceTokenizer::FromVocabulary(ToyTagPieces()).value();
}

// Sentences of 3 to 12 words. A name after "met" is a person; one or two words after "in" or "from"
// are a place.
inline std::string ToyTags(int sentences, uint64_t seed) {
  std::string text;
  for (int s = 0; s < sentences; ++s) {
    RandomStream random({.seed = seed, .site = static_cast<uint32_t>(s)});
    for (uint32_t n = 1 + random.NextBelow(4); n > 0; --n) {
      switch (random.NextBelow(3)) {
        case 0:
          text += random.NextBelow(2) == 0 ? "met O\nanna B-PER\n" : "met O\nbobna B-PER\n";
          break;
        case 1:
          text +=
              random.NextBelow(2) == 0 ? "in O\nport B-LOC\nrome I-LOC\n" : "from O\nrome B-LOC\n";
          break;
        default:
          text += "the O\nold O\n";
      }
    }
    text += "the O\n\n";
  }
  return text;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TASKS_TOKEN_CLASSIFICATION_TOY_TAGS_H_
