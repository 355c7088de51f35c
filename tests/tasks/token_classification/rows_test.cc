// rows_test.cc - pieces of words, rows of sentences, and batches of rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/rows.h"

#include <cmath>
#include <string>
#include <vector>

#include "tasks/token_classification/toy_tags.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Ints = std::vector<int32_t>;

const std::vector<std::string> kTags = {"O", "B-LOC", "B-PER"};

ConllSet SetOf(std::vector<TaggedSentence> sentences) {
  ConllSet set{.sentences = std::move(sentences)};
  for (const TaggedSentence& sentence : set.sentences) {
    set.words += static_cast<int64_t>(sentence.words.size());
  }
  return set;
}

TaggedRows RowsOf(const ConllSet& set, int32_t max_length) {
  StatusOr<TaggedRows> rows =
      TaggedRows::Create(set, kTags, testing::ToyTagTokenizer(), max_length);
  REQUIRE(std::string(rows.status().message()) == "");
  return *std::move(rows);
}

TEST_CASE("the first piece of a word stands for it") {
  const TaggedRows rows = RowsOf(
      SetOf({{{"met", "anna", "in", "rome"}, {"O", "B-PER", "O", "B-LOC"}}, {{"old"}, {"O"}}}), 16);
  REQUIRE(rows.size() == 2);
  const TaggingBatch batch = rows.Pack(std::vector<uint32_t>{0, 1});
  //                            [CLS] met an ##na in rome [SEP] [CLS] old [SEP]
  CHECK(batch.token_ids == Ints{2, 7, 10, 11, 5, 14, 3, 2, 8, 3});
  CHECK(batch.type_ids == Ints(10, 0));
  CHECK(batch.sequences.offsets() == Ints{0, 7, 10});
  CHECK(batch.word_rows == Ints{1, 2, 4, 5, 8});
  CHECK(batch.word_offsets == Ints{0, 4, 5});
  CHECK(batch.tags == std::vector<float>{0, 2, 0, 1, 0});
  CHECK(rows.cut_words() == 0);
}

TEST_CASE("a long sentence is cut between words, and every word is in one row") {
  const TaggedRows rows = RowsOf(SetOf({{{"anna", "anna", "old", "anna"}, {}}}), 5);
  REQUIRE(rows.size() == 3);
  CHECK(std::vector<int32_t>(rows.lengths().begin(), rows.lengths().end()) == Ints{4, 5, 4});
  CHECK(rows.first_word(0) == 0);
  CHECK(rows.first_word(1) == 1);
  CHECK(rows.num_words(1) == 2);
  CHECK(rows.first_word(2) == 3);
  CHECK(rows.first_word(3) == 4);
  const TaggingBatch batch = rows.Pack(std::vector<uint32_t>{2, 1});
  CHECK(batch.word_rows == Ints{1, 5, 7});
  for (const float tag : batch.tags) CHECK(std::isnan(tag));  // no tags were read
}

TEST_CASE("words that fill a row or have no pieces keep their place") {
  // In a row of 3 tokens there is room for one piece.
  const TaggedRows rows = RowsOf(SetOf({{{"anna", "\x01", "rome"}, {}}}), 3);
  REQUIRE(rows.size() == 3);
  CHECK(rows.cut_words() == 1);
  CHECK(rows.Pack(std::vector<uint32_t>{0}).token_ids == Ints{2, 10, 3});
  CHECK(rows.Pack(std::vector<uint32_t>{1}).token_ids == Ints{2, 1, 3});
}

TEST_CASE("a tag that the model does not know is refused") {
  const ConllSet set = SetOf({{{"old"}, {"B-ORG"}}});
  const Status status = TaggedRows::Create(set, kTags, testing::ToyTagTokenizer(), 16).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("the tag B-ORG is not one of the model's (O, B-LOC, B-PER)"));
}

}  // namespace
}  // namespace dtrain
