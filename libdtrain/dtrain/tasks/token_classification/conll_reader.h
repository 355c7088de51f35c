// conll_reader.h - sentences of words with tags, from files in CoNLL's format.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const ConllSet train, ReadConll({"train.conll"}, {}));
//   const std::vector<std::string> tags = TagsOf(train);   // "O", "B-LOC", "I-LOC" ...
//
// A line is a word with its columns, between blanks or tabs. An empty line ends a sentence, and so
// does a line -DOCSTART-, which is no word.
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONLL_READER_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONLL_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"

namespace dtrain {

struct ConllOptions {
  int word_column = 0;
  int tag_column = -1;   // -1: the last one
  bool has_tags = true;  // false: the column of tags is not read
  // The treatment of lines that are not UTF-8. kSkip would end a sentence and is not allowed.
  InvalidText invalid = InvalidText::kFail;
};

struct TaggedSentence {
  std::vector<std::string> words;  // at least one
  std::vector<std::string> tags;   // of the words, or none where they are not read
};

struct ConllSet {
  std::vector<TaggedSentence> sentences;
  int64_t words = 0;
  uint32_t crc = 0;  // CRC32C of all words and tags
};

// DataError names file and line: a column is missing, a tag is not O, B-TYPE or I-TYPE, or the
// files hold no word.
StatusOr<ConllSet> ReadConll(const std::vector<std::string>& paths, const ConllOptions& options);

// The tags of a set: "O", then the others by name.
std::vector<std::string> TagsOf(const ConllSet& set);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_CONLL_READER_H_
